"""Iteration over the schemas in a schema. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apiserver_stub.apimachinery.objects import Object

_SINGLE = ("items", "additionalProperties", "not", "allOf", "anyOf", "oneOf", "additionalItems")
_NAMED = ("properties", "patternProperties", "definitions", "dependencies")


def schemas_in(schema: Any) -> Iterator[Object]:
    """Yield *schema*, unless it is none, and all schemas in it."""
    if isinstance(schema, list):
        for item in schema:
            yield from schemas_in(item)
    elif isinstance(schema, dict):
        yield schema
        for name in _SINGLE:
            yield from schemas_in(schema.get(name))
        for name in _NAMED:
            for item in (schema.get(name) or {}).values():
                yield from schemas_in(item)
