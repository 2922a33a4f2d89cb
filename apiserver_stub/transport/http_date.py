"""The ``Date`` header of responses."""

from __future__ import annotations

import time
from email.utils import formatdate

_cached = (0, "")


def http_date() -> str:
    """Return the current time as the value of a ``Date`` header."""
    global _cached  # noqa: PLW0603 - formatted once per second
    now = int(time.time())
    if _cached[0] != now:
        _cached = (now, formatdate(now, usegmt=True))
    return _cached[1]
