"""Structural schemas of custom resources: the OpenAPI schema of a version, and what the server derives from it."""
