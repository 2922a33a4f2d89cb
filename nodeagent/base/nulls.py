"""Nulls in plain data: as in Go, a field that is null equals an unset field."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def without_nulls(value: Any) -> Any:
    """Return a copy of *value*, decoded JSON or YAML, without the keys that are null; elements of lists are kept."""
    if isinstance(value, dict):
        return {key: without_nulls(content) for key, content in value.items() if content is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def convert(value: Any, into: type[T]) -> T:
    """Return *value*, decoded JSON or YAML, as *into*.

    :raises ValueError: *value* is not a valid *into*.
    """
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError:  # Copies only the few values that have a null, or are invalid.
        return msgspec.convert(without_nulls(value), into)
