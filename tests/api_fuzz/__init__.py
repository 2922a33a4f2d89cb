"""Fuzz tests of the API server from its discovery and OpenAPI documents: see :mod:`__main__`."""
