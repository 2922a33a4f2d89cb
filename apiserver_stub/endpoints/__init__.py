"""Endpoints without a resource: discovery, health, OpenAPI, profiles, metrics and the page for browsers."""
