"""Errors in custom resources, with values in the form of Go. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.go_format import go_literal, go_value
from apiserver_stub.apimachinery.status import Cause, quote

NO_FIELD = "<nil>"
"""Field of errors that concern no single field, as upstream."""


def shown(value: Any) -> str:
    """Return *value* as errors show it."""
    if value is None:
        return '"null"'
    if isinstance(value, str):
        return quote(value)
    return go_literal(value) if isinstance(value, dict | list) else go_value(value)


def invalid(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", field or NO_FIELD)


def type_invalid(field: str, actual: str, detail: str) -> Cause:
    """Return the error for a value of the wrong type; *actual* is its type, or the text without the right format."""
    return Cause("FieldValueTypeInvalid", f"Invalid value: {quote(actual)}: {detail}", field or NO_FIELD)


def unsupported(field: str, value: Any, supported: Sequence[Any]) -> Cause:
    texts = (item if isinstance(item, str) else objects.encode(item).decode() for item in supported)
    values = ", ".join(quote(text) for text in texts)
    return Cause(
        "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {values}", field or NO_FIELD
    )


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def too_long(field: str, limit: int) -> Cause:
    """Return the error for a text with more than *limit* characters."""
    return Cause("FieldValueTooLong", f"Too long: may not be longer than {limit}", field or NO_FIELD)
