"""Soak test: a node under a load that changes, with samples of its resources and a report about their growth."""
