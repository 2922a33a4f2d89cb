"""Names that only the API server validates: path segments, finalizers and bases of generated names."""

from __future__ import annotations

from collections.abc import Callable

from nodeagent.base.names import qualified_name_problems

_STANDARD_FINALIZERS = frozenset(["kubernetes", "orphan", "foregroundDeletion"])


def path_problems(value: str) -> list[str]:
    """Return why *value* is invalid as part of a path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in value]


def finalizer_problems(value: str) -> list[str]:
    """Return why *value* is not a valid finalizer name."""
    return qualified_name_problems(value) + standard_finalizer_problems(value)


def standard_finalizer_problems(value: str) -> list[str]:
    """Return an error for an unqualified *value* that is not a standard finalizer."""
    if "/" in value or value in _STANDARD_FINALIZERS:
        return []
    return ["name is neither a standard finalizer name nor is it fully qualified"]


def prefix_problems(prefix: str, problems_of: Callable[[str], list[str]]) -> list[str]:
    """Return the reasons why *prefix* is not a valid base of generated names that *problems_of* validates."""
    if problems_of is path_problems:
        return [f"may not contain '{character}'" for character in "/%" if character in prefix]
    # The generated suffix follows: a trailing dash is valid.
    return problems_of(f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix)
