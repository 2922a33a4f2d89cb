"""Validation of values against the OpenAPI schemas of custom resources."""
