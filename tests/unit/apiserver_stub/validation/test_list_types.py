"""Tests for the list types ``set`` and ``map`` in custom resources."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.validation.list_types import validate_list_types

OBJECT = "map[string]interface {}"
SET = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
MAP = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "values": SET}},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "plain": {"type": "array", "items": {"type": "string"}},
        "set": SET,
        "spec": {"type": "object", "properties": {"map": MAP}},
        "any": {"type": "object", "additionalProperties": SET},
    },
}


@pytest.mark.parametrize(
    ("obj", "errors"),
    [
        ({"plain": ["a", "a"], "set": ["a", "b"], "unknown": ["a", "a"]}, []),
        ({"set": ["a", "b", "a", "a"]}, ['set[2]: Duplicate value: "a"']),
        ({"set": "text"}, []),
        ({"any": {"x": ["a", "a"]}}, ['any[x][1]: Duplicate value: "a"']),
        ({"spec": {"map": [{"name": "a"}, {"name": "b"}]}}, []),
        ({"spec": {"map": [{"name": "a"}, {"name": "a"}]}}, [f'spec.map[1]: Duplicate value: {OBJECT}{{"name":"a"}}']),
        ({"spec": {"map": [{}, None]}}, [f"spec.map[1]: Duplicate value: {OBJECT}{{}}"]),
        (
            {"spec": {"map": [{"name": "a"}, "x", {"name": "a"}]}},
            ['spec.map[1]: Invalid value: "x": must be an object for an array of list-type map'],
        ),
        (
            {"spec": {"map": [{"name": "a", "values": ["c", "c"]}]}},
            ['spec.map[0].values[1]: Duplicate value: "c"'],
        ),
    ],
)
def test_repeated_items_and_keys_are_reported(obj: Any, errors: list[str]) -> None:
    found = validate_list_types(obj, tree_of(SCHEMA))

    assert [f"{cause.field}: {cause.message}" for cause in found] == errors
