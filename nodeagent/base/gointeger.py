"""Integers in text as Go's ``strconv.ParseInt`` reads them: ASCII digits, and no underscores or white space."""

from __future__ import annotations

import re

_SYNTAX = re.compile(r"[+-]?[0-9]+")
_DIGITS = re.compile(r"[0-9]{1,18}")
_MOST_DIGITS, _LIMIT = 19, 1 << 63


class IntegerError(ValueError):
    """Text that is not a 64-bit integer; the message is Go's."""


def parse_int64(text: str) -> int:
    """Return the integer that *text* holds in decimal digits.

    :raises IntegerError: invalid syntax, or the number has more than 64 bits.
    """
    if not _SYNTAX.fullmatch(text):
        raise IntegerError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    # Python limits the digits that int() accepts.
    if len(text.lstrip("+-0")) > _MOST_DIGITS or not -_LIMIT <= (number := int(text)) < _LIMIT:
        raise IntegerError(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def parse_digits(text: str) -> int | None:
    """Return the number that *text* consists of; ``None`` if it has other characters or more than 18 digits."""
    return int(text) if _DIGITS.fullmatch(text) else None
