"""Pod status: generate statuses from runtime state and sync them to the API server."""
