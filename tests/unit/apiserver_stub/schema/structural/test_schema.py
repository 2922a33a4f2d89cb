"""Tests for structural schemas: pruning, defaults, embedded resources and shapes."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.schema.field_validation import SchemaMismatch
from apiserver_stub.schema.shapes import Form
from apiserver_stub.schema.structural.defaults import apply_defaults
from apiserver_stub.schema.structural.schema import StructuralSchema
from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.schema.typed.comparison import fields_of
from apiserver_stub.schema.typed.elements import InvalidElement


def spec_of(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties, **more}
    return {"type": "object", "properties": {"spec": spec}}


def schema(source: dict[str, Any]) -> StructuralSchema:
    return StructuralSchema("Widget", tree_of(source))


def widget(spec: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "x"}, "spec": spec, **more}


def test_unknown_fields_are_removed_and_reported_by_path() -> None:
    items = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    obj = widget({"list": [{"a": "1", "b": {"c": 1}}], "other": {"x": 1}}, extra=1)
    obj["metadata"]["unknown"] = 1

    found = schema(spec_of({"list": items})).check(obj)

    assert obj["spec"] == {"list": [{"a": "1"}]}
    assert "extra" not in obj
    assert found.unknown == ["metadata.unknown", "extra", "spec.list[0].b", "spec.other"]


def test_unknown_fields_are_preserved_if_the_schema_preserves_them() -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "object"}}}
    obj = widget({"free": {"a": {"b": 1}, "c": {"d": [None]}}})

    found = schema(spec_of({"free": free})).check(obj)

    assert obj["spec"] == {"free": {"a": {}, "c": {"d": [None]}}}
    assert found.unknown == ["spec.free.a.b"]


def test_maps_keep_their_keys() -> None:
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    obj = widget({"texts": {"a": "1"}})

    assert schema(spec_of({"texts": texts})).check(obj).unknown == []
    assert obj["spec"] == {"texts": {"a": "1"}}


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"type": "string"}, {}),
        ({"type": "string", "nullable": True}, {"a": None}),
        ({"type": "string", "default": "x"}, {"a": "x"}),
        ({"type": "string", "default": "x", "nullable": True}, {"a": None}),
    ],
)
def test_nulls_are_removed_or_defaulted_unless_they_are_allowed(field: Any, expected: Any) -> None:
    source, obj = spec_of({"a": field}), widget({"a": None})

    schema(source).check(obj)
    apply_defaults(obj, tree_of(source))

    assert obj["spec"] == expected


def test_defaults_are_set_in_existing_objects_and_items_only() -> None:
    inner = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    source = spec_of({"one": inner, "many": {"type": "array", "items": inner}, "two": {**inner, "default": {}}})
    obj = widget({"many": [{}, {"n": 2}]})

    apply_defaults(obj, tree_of(source))

    assert obj["spec"] == {"many": [{"n": 1}, {"n": 2}], "two": {"n": 1}}


def test_metadata_of_embedded_resources_is_normalized() -> None:
    template = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}, "wrong": 1}, "spec": {"x": 1}}
    obj = widget({"template": pod})

    found = schema(spec_of({"template": template})).check(obj)

    assert obj["spec"]["template"]["metadata"] == {"labels": {"a": "b"}}
    assert obj["spec"]["template"]["spec"] == {"x": 1}
    assert found.unknown == ["spec.template.metadata.wrong"]


def test_wrong_type_in_metadata_is_an_error() -> None:
    obj = widget({})
    obj["metadata"]["labels"] = {"a": 1}

    with pytest.raises(SchemaMismatch, match=r"cannot unmarshal number into Go struct field ObjectMeta.labels"):
        schema(spec_of({})).check(obj)


def test_fields_without_a_schema_have_separate_owners() -> None:
    source = spec_of({"free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}})
    shape = schema(source).shape

    found = fields_of(widget({"free": {"a": {"b": 1}, "c": [1, 2]}}), shape)

    assert set(found["f:spec"]["f:free"]) >= {"f:a", "f:c"}
    assert "f:b" in found["f:spec"]["f:free"]["f:a"]


def test_list_keys_have_the_defaults_of_the_schema() -> None:
    ports = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {
            "type": "object",
            "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
        },
    }
    shape = schema(spec_of({"ports": ports})).shape

    found = fields_of(widget({"ports": [{"port": 1}]}), shape)

    assert 'k:{"port":1,"protocol":"TCP"}' in found["f:spec"]["f:ports"]


def test_value_of_a_wrong_type_has_no_fields() -> None:
    shape = schema(spec_of({"a": {"type": "string"}})).shape

    assert shape.members["spec"].form is Form.OBJECT
    with pytest.raises(InvalidElement):
        fields_of(widget("text"), shape)


DEFAULT = {"type": "string", "default": "x"}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ({"type": "object", "additionalProperties": DEFAULT}, {"a": None, "b": "y"}, {"a": "x", "b": "y"}),
        ({"type": "object", "additionalProperties": {**DEFAULT, "nullable": True}}, {"a": None}, {"a": None}),
        ({"type": "array", "items": DEFAULT}, [None, "y"], ["x", "y"]),
        ({"type": "array", "items": {**DEFAULT, "nullable": True}}, [None], [None]),
        ({"type": "array", "items": {"type": "object", "properties": {"a": DEFAULT}}}, [None, {}], [None, {"a": "x"}]),
        ({**DEFAULT, "nullable": True}, None, None),
        (DEFAULT, None, "x"),
        (DEFAULT, "y", "y"),
        ({"type": "object"}, {"a": None}, {"a": None}),
    ],
)
def test_defaults_replace_nulls_that_are_not_allowed(field: Any, value: Any, expected: Any) -> None:
    obj = {"spec": {"field": value}}

    apply_defaults(obj, tree_of(spec_of({"field": field})))

    assert obj == {"spec": {"field": expected}}


@pytest.mark.parametrize(
    ("field", "value", "expected", "unknown"),
    [
        ({"type": "array"}, [{"b": 1}], [{}], ["spec.field[0].b"]),
        ({"type": "array"}, [[{"b": 1}]], [[{}]], ["spec.field[0][0].b"]),
        ({"type": "array", "x-kubernetes-preserve-unknown-fields": True}, [{"b": 1}], [{"b": 1}], []),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-preserve-unknown-fields": True},
            [{"b": 1}],
            [{}],
            ["spec.field[0].b"],
        ),
    ],
)
def test_items_without_a_schema_are_pruned_unless_preserved(
    field: Any, value: Any, expected: Any, unknown: list[str]
) -> None:
    obj = widget({"field": value})

    found = schema(spec_of({"field": field})).check(obj)

    assert (obj["spec"]["field"], found.unknown) == (expected, unknown)


def test_lists_without_items_may_be_in_embedded_resources() -> None:
    free = {"x-kubernetes-preserve-unknown-fields": True}
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"a": {"type": "array", **free}},
    }
    obj = widget({"field": {"kind": "A", "apiVersion": "v1", "a": [{"b": 1}, 5]}})

    assert schema(spec_of({"field": embedded})).check(obj).unknown == []
    assert obj["spec"]["field"]["a"] == [{"b": 1}, 5]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [({"name": "a", "creationTimestamp": None}, {"name": "a"}), ({"creationTimestamp": "t"},) * 2, (None, None)],
)
def test_unset_creation_time_is_omitted(metadata: Any, expected: Any) -> None:
    obj = {"metadata": metadata}

    schema({"type": "object"}).omit_null_times(obj)

    assert obj == {"metadata": expected}
