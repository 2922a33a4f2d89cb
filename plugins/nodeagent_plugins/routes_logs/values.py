"""Times in log queries."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def parse_time(text: str) -> datetime:
    """Return an RFC 3339 time in UTC.

    :raises ValueError: the text is invalid or not an existing time.
    """
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is not an existing time") from error
