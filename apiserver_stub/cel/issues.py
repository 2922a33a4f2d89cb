"""Errors of the type checker in upstream's format. No I/O."""

from __future__ import annotations

import re

_STRUCT = re.compile(r" not found in struct '[^']*'")
_FOLLOWING = re.compile(r"\nERROR: [^\n]*'\*error\*'[^\n]*(\n \|[^\n]*)*")
"""Error that only exists because of a previous one."""
_NUMBERS = re.compile(
    r"no matching overload for '_(<|<=|>|>=|==|!=)_' applied to '\((int|uint|double), (int|uint|double)\)'"
)


def issues_of(error: RuntimeError) -> str:
    """Return the errors of a compilation with their positions, empty if they are no errors upstream.

    Numbers of different types are comparable, which the type checker does not support.
    """
    text = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    if all(_NUMBERS.search(line) for line in text.splitlines() if line.startswith("ERROR: ")):
        return ""
    return _STRUCT.sub("", _FOLLOWING.sub("", text))
