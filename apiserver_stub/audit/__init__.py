"""Audit logging: events of requests and their responses, selected by the audit policy file."""
