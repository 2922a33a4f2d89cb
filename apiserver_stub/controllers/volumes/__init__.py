"""Controllers of persistent volumes and claims: binding, ephemeral claims and local volumes."""
