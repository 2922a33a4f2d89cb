"""Tests for the shapes of structural schemas."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.schema.shapes import DEDUCED, UNKNOWN, Form
from apiserver_stub.schema.structural.shape import shape_of
from apiserver_stub.schema.structural.tree import tree_of


@pytest.mark.parametrize(
    ("name", "form"), [("", Form.TEXT), ("byte", Form.TEXT), ("date-time", Form.INT_OR_TEXT), ("uri", Form.INT_OR_TEXT)]
)
def test_texts_with_a_format_have_no_type_in_server_side_apply(name: str, form: Form) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": name}}}

    assert shape_of(tree_of(schema), "Widget").members["a"].form is form


FREE = {"x-kubernetes-preserve-unknown-fields": True}
INNER = {"type": "object", "properties": {"b": {}}}


@pytest.mark.parametrize(
    ("outer", "inner", "is_free"),
    [({}, {}, False), (FREE, {}, True), ({}, FREE, True)],
    ids=["closed", "outer", "inner"],
)
def test_values_below_a_free_schema_are_free(outer: Any, inner: Any, *, is_free: bool) -> None:
    source = {"type": "object", "properties": {"a": {**INNER, **inner}}, **outer}

    found = shape_of(tree_of(source), "Widget")

    member = found.members["a"]
    assert (member.other is DEDUCED, member.members["b"] is DEDUCED) == (is_free, is_free)
    assert member.members["b"] is (DEDUCED if is_free else UNKNOWN)
    assert (found.other is DEDUCED) is bool(outer)


@pytest.mark.parametrize(
    ("source", "form", "has_other"),
    [
        ({"type": "object"}, Form.MAP, False),
        ({"type": "object", "additionalProperties": {"type": "string"}}, Form.MAP, False),
        ({**INNER, "additionalProperties": {"type": "string"}}, Form.OBJECT, True),
        (INNER, Form.OBJECT, False),
        ({"type": "object", "x-kubernetes-embedded-resource": True, **FREE}, Form.OBJECT, True),
        ({"type": "object", "x-kubernetes-embedded-resource": True}, Form.OBJECT, False),
    ],
)
def test_objects_without_fields_are_maps_except_resources(source: Any, form: Form, *, has_other: bool) -> None:
    found = shape_of(tree_of({"type": "object", "properties": {"a": source}}), "Widget").members["a"]

    assert (found.form, found.other is not None) == (form, has_other)
    assert ("metadata" in found.members) is ("x-kubernetes-embedded-resource" in source)


@pytest.mark.parametrize(
    ("items", "defaults"),
    [
        (None, {}),
        ({"type": "object", "properties": {"k": {"type": "string"}}}, {}),
        ({"type": "object", "properties": {"k": {"type": "string", "default": "x"}}}, {"k": "x"}),
        ({"type": "object", "properties": {"other": {"type": "string", "default": "x"}}}, {}),
    ],
)
def test_keys_of_lists_have_defaults(items: Any, defaults: Any) -> None:
    source = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    source |= {"items": items} if items else {}

    found = shape_of(tree_of({"type": "object", "properties": {"a": source}}), "Widget").members["a"]

    assert (found.form, found.keys, dict(found.key_defaults)) == (Form.LIST, ("k",), defaults)


@pytest.mark.parametrize(
    ("source", "keyed"),
    [
        ({"type": "array"}, False),
        ({"type": "array", "x-kubernetes-list-type": "atomic"}, False),
        ({"type": "array", "x-kubernetes-list-type": "set"}, True),
        ({"type": "array", "x-kubernetes-list-type": "map"}, True),
    ],
)
def test_schema_records_lists_whose_items_are_unique(source: Any, *, keyed: bool) -> None:
    tree = tree_of({"type": "object", "properties": {"a": {"type": "array", "items": source}}})

    assert tree.has_keyed_lists is keyed
    assert (tree.map_type, tuple(tree.rules)) == ("", ())
