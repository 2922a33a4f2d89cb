"""Tests for the least sizes of values, which determine how many of them a request can have."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.validation.schema_rules.sizes import least_bytes


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, len('""')),
        ({"type": "string", "format": "duration"}, len('"0s"') - 1),
        ({"type": "string", "format": "date"}, len('"2026-01-02"')),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}, len('{"a":"",}')),
    ],
)
def test_least_size_of_a_value(schema: dict[str, Any], expected: int) -> None:
    assert least_bytes(tree_of(schema)) == expected
