"""Collector of validation errors, and rules for addresses and paths. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nodeagent.base.names import is_ip
from nodeagent.errors import Problem

Rule = Callable[[str], Sequence[str]]
"""Return the violated rules of a value, without a subject."""


def ip_address(value: str) -> list[str]:
    """Return why *value* is not an IPv4 or IPv6 address."""
    return [] if is_ip(value) else ["must be an IPv4 or IPv6 address"]


def relative_path(value: str) -> str:
    """Return why *value* is not a path within its base directory, or the empty string."""
    if not value:
        return "is required"
    if value.startswith("/"):
        return "must be a relative path"
    return no_backsteps(value)


def no_backsteps(value: str) -> str:
    """Return why *value* is not a path without ``..``, or the empty string."""
    return "must not contain '..'" if ".." in value.split("/") else ""


class Problems:
    """Validation errors of one input, by field path."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.found: list[Problem] = []

    def add(self, path: str, value: object, rule: str) -> None:
        """Record that *value* violates *rule*, unless that is empty."""
        if rule:
            self.found.append(Problem(self._source, path, value, rule))

    def check(self, path: str, value: str, rule: Rule) -> bool:
        """Record the violations of *rule* by *value*; return whether there are none."""
        broken = rule(value)
        for text in broken:
            self.add(path, value, text)
        return not broken

    def require(self, path: str, value: object) -> bool:
        """Check that *value* is not empty; return whether that is so."""
        if value in ("", None):
            self.add(path, None, "is required")
            return False
        return True

    def name(self, path: str, value: str, rule: Rule) -> bool:
        """Check a required name; return whether it is valid."""
        return self.require(path, value) and self.check(path, value, rule)

    def optional(self, path: str, value: str | None, rule: Rule) -> None:
        """Check *value* unless it is empty."""
        if value:
            self.check(path, value, rule)

    def choice(self, path: str, value: str | None, choices: Iterable[str]) -> None:
        """Check that *value*, unless empty, is one of *choices*."""
        allowed = tuple(choices)
        if value and value not in allowed:
            self.add(path, value, f"must be one of {', '.join(allowed)}")

    def between(self, path: str, value: int | None, low: int, high: int) -> None:
        """Check that *value*, unless absent, is in a range."""
        if value is not None and not low <= value <= high:
            self.add(path, value, f"must be between {low} and {high}")

    def at_least(self, path: str, value: int | None, low: int) -> None:
        """Check that *value*, unless absent, is not below *low*."""
        if value is not None and value < low:
            self.add(path, value, "must not be negative" if low == 0 else f"must be at least {low}")

    def exactly_one(self, path: str, specified: Iterable[str]) -> None:
        """Check that exactly one of several alternatives is set."""
        names = list(specified)
        if not names:
            self.add(path, None, "must have a source, none is set")
        elif len(names) > 1:
            self.add(path, None, f"must have one of {', '.join(names)}, not several")
