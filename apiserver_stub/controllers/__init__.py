"""Controllers that this server runs itself, so that a single-node cluster needs no controller manager or scheduler."""
