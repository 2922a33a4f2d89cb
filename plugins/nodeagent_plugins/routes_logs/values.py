"""Times in log queries."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def moment(text: str) -> datetime:
    """Return a time of RFC 3339, in UTC.

    :raises ValueError: it is none, or no time there is.
    """
    if not _TIME.fullmatch(text):
        raise ValueError(f"{text!r} is not a time of RFC 3339")
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is not a time there is") from error
