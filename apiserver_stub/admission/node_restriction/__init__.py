"""Checks of the NodeRestriction admission plugin, one module per kind that node agents write."""
