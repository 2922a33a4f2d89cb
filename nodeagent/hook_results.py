"""Validation of hook results, so that an error names the plugin that caused it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

_MAX_REPR_LENGTH = 80


def validate_result(specification: Callable[..., Any], result: Any) -> str:
    """Return the validation error for *result* of a hook, empty if it is valid; ``None`` always is.

    Sequences and data classes are checked by type. Protocols are not checked; their contract suites do that.
    """
    is_sequence, expected = _expected_type(specification)
    if result is None or expected is None:
        return ""
    if is_sequence and (not isinstance(result, Sequence) or isinstance(result, str | bytes)):
        return f"returned {_short_repr(result)}, expected a sequence of {expected.__name__}"
    if getattr(expected, "_is_protocol", False):
        return ""
    invalid = next((each for each in (result if is_sequence else (result,)) if not isinstance(each, expected)), None)
    return "" if invalid is None else f"returned {_short_repr(invalid)}, expected {expected.__name__}"


def _short_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_REPR_LENGTH else f"{text[:_MAX_REPR_LENGTH]}…"


@cache
def _expected_type(specification: Callable[..., Any]) -> tuple[bool, type | None]:
    """Return whether a hook returns a sequence, and the class of its result; ``None`` if there is nothing to check."""
    annotation = get_type_hints(specification).get("return")
    for option in get_args(annotation) if isinstance(annotation, UnionType) else (annotation,):
        if get_origin(option) is Sequence:
            return True, get_args(option)[0]
        if isinstance(option, type) and option is not type(None) and get_origin(option) is None:
            return False, option
    return False, None
