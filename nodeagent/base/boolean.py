"""Booleans as flags and options spell them. No I/O."""

from __future__ import annotations

_VALUES = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def parse_bool(text: str) -> bool | None:
    """Return the value of *text*, or ``None`` if it is not a boolean."""
    return _VALUES.get(text)
