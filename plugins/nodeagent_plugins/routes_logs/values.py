"""Numbers and times as queries for logs may hold them, and no looser than the field reads them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def whole_number(text: str) -> int:
    """Return a number in decimal digits.

    :raises ValueError: it is none.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


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
