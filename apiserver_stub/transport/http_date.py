"""Dates in headers of responses."""

from __future__ import annotations

import time

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_cached = (0, "")


def http_date() -> str:
    """Return the current time as the value of a ``Date`` header."""
    global _cached  # noqa: PLW0603 - formatted once per second
    now = int(time.time())
    if _cached[0] != now:
        _cached = (now, format_http_date(now))
    return _cached[1]


def format_http_date(seconds: float) -> str:
    """Return a time since the epoch; as ``email.utils.formatdate``, without its many modules."""
    year, month, day, hour, minute, second, weekday, *_ = time.gmtime(seconds)
    return f"{_DAYS[weekday]}, {day:02} {_MONTHS[month - 1]} {year:04} {hour:02}:{minute:02}:{second:02} GMT"
