"""Regular expressions of CEL, in the syntax and with the linear time of RE2.

The library is imported when the first pattern is used.
"""

from __future__ import annotations

from typing import Any

from nodeagent.base.aging_cache import aging_cache

_CACHED = 256
_GO_TEXTS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
}
"""Errors of the library → those of Go."""


def pattern_problem(pattern: str) -> str:
    """Return why *pattern* is not a regular expression, an empty text if it is one."""
    try:
        _compiled(pattern)
    except ValueError as error:
        return str(error)
    return ""


def matches(text: str, pattern: str) -> bool:
    """Return whether a part of *text* matches.

    :raises ValueError: *pattern* is invalid.
    """
    return _compiled(pattern).search(text.encode()) is not None


def find(text: str, pattern: str) -> str:
    """Return the first match, empty for none.

    :raises ValueError: *pattern* is invalid.
    """
    match = _compiled(pattern).search(text.encode())
    return match.group().decode() if match else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return the matches, at most *limit* unless it is negative.

    :raises ValueError: *pattern* is invalid.
    """
    found = []
    for match in _compiled(pattern).finditer(text.encode()) if limit else ():
        found.append(match.group().decode())
        if len(found) == limit:
            break
    return found


@aging_cache(_CACHED)
def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False  # It would write to standard error.
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        (text,) = error.args
        problem, _, part = text.decode(errors="replace").partition(": ")
        raise ValueError(f"error parsing regexp: {_GO_TEXTS.get(problem, problem)}: `{part}`") from None
