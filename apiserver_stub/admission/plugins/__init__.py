"""Bundled admission plugins, one per module; every module is discovered when the server starts."""
