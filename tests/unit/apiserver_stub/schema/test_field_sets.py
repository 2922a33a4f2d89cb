"""Tests for field sets and their wire form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub.schema import field_sets, shapes
from apiserver_stub.schema.field_sets import LEAF, SELF

_names = st.sampled_from(["f:a", "f:b", 'k:{"name":"c"}', 'v:"d"'])
_sets = st.recursive(
    st.just({}), lambda below: st.dictionaries(_names | st.just("."), below, max_size=3), max_leaves=8
).map(lambda wire: field_sets.decode({name: value for name, value in wire.items() if name != "."}))


@given(_sets, _sets)
def test_set_operations_follow_set_algebra(one: Any, other: Any) -> None:
    encode = field_sets.encode
    both, either = field_sets.intersection(one, other), field_sets.union(one, other)

    assert encode(field_sets.union(other, one)) == encode(either)
    assert encode(field_sets.union(field_sets.difference(one, other), both)) == encode(one)
    assert field_sets.difference(one, either) == {}
    assert encode(field_sets.difference(either, other)) == encode(field_sets.difference(one, other))
    assert encode(field_sets.decode(encode(either))) == encode(either)


@given(_sets, _sets)
def test_recursive_difference_drops_fields_in_excluded_ones(one: Any, other: Any) -> None:
    rest = field_sets.recursive_difference(one, other)

    assert field_sets.difference(rest, one) == {}
    assert field_sets.intersection(rest, other) == {}


def test_wire_form_is_normalized() -> None:
    wire: dict[str, Any] = {'k:{"b":1, "a":"<"}': {}, "x:unknown": {}, "f:a": {"y:unknown": {}}, 'v:"&"': {"f:b": {}}}

    fields = field_sets.decode(wire)

    assert fields == {'k:{"a":"<","b":1}': LEAF, 'v:"&"': {"f:b": LEAF}}
    assert field_sets.encode(fields) == {'k:{"a":"\\u003c","b":1}': {}, 'v:"\\u0026"': {"f:b": {}}}


@pytest.mark.parametrize("wire", [{"a": {}}, {"k:5": {}}, {"v:{": {}}, {"i:a": {}}, {"f:a": {"b": {}}}, []])
def test_invalid_wire_form_is_an_error(wire: Any) -> None:
    with pytest.raises(ValueError, match=r"invalid path element|a set of fields"):
        field_sets.decode(wire)


def test_paths_list_fields_before_those_in_them() -> None:
    fields = field_sets.decode(
        {"f:b": {".": {}, "f:c": {}}, "f:a": {'k:{"port":443}': {}, 'k:{"port":80}': {}}, "f:d": {'v:"x"': {}}}
    )

    assert list(field_sets.paths(fields)) == [".b", ".a[port=80]", ".a[port=443]", ".b.c", '.d[="x"]']


def test_struct_fields_are_added_and_map_entries_are_not() -> None:
    shape = shapes.of("v1", "Pod", "k8s.io")
    assert shape is not None
    fields = field_sets.decode(
        {"f:spec": {"f:containers": {'k:{"name":"c"}': {"f:image": {}}}}, "f:metadata": {"f:labels": {"f:a": {}}}}
    )

    whole = field_sets.with_struct_fields(fields, shape)

    containers = whole["f:spec"]["f:containers"]
    assert SELF in whole["f:spec"]
    assert SELF in containers
    assert SELF not in containers['k:{"name":"c"}']
    assert whole["f:metadata"] == {SELF: {}, "f:labels": {SELF: {}, "f:a": LEAF}}
