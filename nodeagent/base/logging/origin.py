"""Plugin whose code runs, for its log records."""

from contextvars import ContextVar

PLUGIN: ContextVar[str] = ContextVar("plugin", default="")
"""Name that is added to records as field ``plugin``, unless they have one; empty outside of plugins."""
