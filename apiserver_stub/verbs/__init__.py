"""Verbs of resources: each turns a request into store operations and a reply."""
