"""Tests for the CEL types of structural schemas."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.validation.schema_rules.types import ObjectTypes

_TEXT = {"type": "string"}
_OBJECT = {"type": "object", "properties": {"a": _TEXT}}


@pytest.mark.parametrize(
    ("schema", "expected", "objects"),
    [
        (_TEXT, "string", {}),
        ({"type": "array", "items": _TEXT}, "list(string)", {}),
        ({"type": "object", "additionalProperties": _TEXT}, "map(string)", {}),
        ({"type": "array", "items": _OBJECT}, "list(Type0)", {"Type0": {"a": "string"}}),
        ({"type": "object", "additionalProperties": _OBJECT}, "map(Type0)", {"Type0": {"a": "string"}}),
    ],
)
def test_type_of_a_schema(schema: dict[str, Any], expected: str, objects: dict[str, Any]) -> None:
    types = ObjectTypes()

    assert (types.add(tree_of(schema)), types.found) == (expected, objects)
