"""Outgoing connections of the server and the egress selector, which chooses a proxy for each destination."""
