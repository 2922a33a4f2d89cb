"""Replacement of pytest-kind: the cluster is the server under test."""
