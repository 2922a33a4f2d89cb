"""Shared package of both binaries: code that is not specific to Kubernetes nodes and imports no other package here."""
