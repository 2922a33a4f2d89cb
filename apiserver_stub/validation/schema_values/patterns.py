"""Regular expressions of schemas, in the syntax of Go; matching takes linear time."""

from __future__ import annotations

from apiserver_stub.cel import patterns
from nodeagent.base.aging_cache import cleared_cache

_CACHED_TEXTS = 4096
_LONG_TEXT = 256


def matches(pattern: str, text: str) -> bool:
    """Return whether *text* contains a match of the valid *pattern*."""
    return _cached_match(pattern, text) if len(text) < _LONG_TEXT else _match(pattern, text)


@cleared_cache(_CACHED_TEXTS)
def _cached_match(pattern: str, text: str) -> bool:
    return _match(pattern, text)


def _match(pattern: str, text: str) -> bool:
    try:
        return patterns.matches(text, pattern)
    except ValueError:
        return False  # Patterns are validated when they are stored.
