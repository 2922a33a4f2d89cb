"""Controllers of the kinds that create pods, and of the kinds that depend on pods."""
