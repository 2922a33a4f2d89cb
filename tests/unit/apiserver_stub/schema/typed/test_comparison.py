"""Tests for field sets of values, and the differences between values."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.schema import field_sets, shapes
from apiserver_stub.schema.typed.comparison import compare, fields_of
from apiserver_stub.schema.typed.elements import InvalidElement


def _spec(kind: str = "Service") -> shapes.Shape:
    found = shapes.of("v1", kind, "k8s.io")
    assert found is not None
    return found.child("spec")


HTTP = 'k:{"port":80,"protocol":"TCP"}'


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"ports": []}, {}),
        ({"ports": None}, {"f:ports": {}}),
        ({"externalIPs": []}, {"f:externalIPs": {}}),
        ({"selector": {}}, {"f:selector": {}}),
        ({"sessionAffinityConfig": {"clientIP": {}}}, {"f:sessionAffinityConfig": {"f:clientIP": {}}}),
        ({"ports": [{"port": 80}]}, {"f:ports": {HTTP: {".": {}, "f:port": {}}}}),
        ({"ports": [{"port": 80}, {"port": 80, "name": "a"}]}, {"f:ports": {HTTP: {}}}),
    ],
)
def test_leaves_and_items_are_fields(spec: dict[str, Any], fields: dict[str, Any]) -> None:
    assert field_sets.encode(fields_of(spec, _spec())) == fields


@pytest.mark.parametrize(
    ("old", "new", "removed", "modified", "added"),
    [
        ({"type": "a"}, {"type": "b"}, {}, {"f:type": {}}, {}),
        ({"selector": {"a": "1"}}, {"selector": {"b": "1"}}, {}, {"f:selector": {}}, {}),
        ({"ports": None}, {"ports": []}, {}, {"f:ports": {}}, {}),
        ({"ports": []}, {"ports": [{"port": 80}]}, {}, {}, {"f:ports": {HTTP: {".": {}, "f:port": {}}}}),
        ({}, {"ports": [{"port": 80}]}, {}, {}, {"f:ports": {".": {}, HTTP: {".": {}, "f:port": {}}}}),
        ({"ports": [{"port": 80}]}, {"ports": None}, {"f:ports": {HTTP: {".": {}, "f:port": {}}}}, {}, {}),
        (
            {"ports": [{"port": 80, "name": "a"}]},
            {"ports": [{"port": 80, "nodePort": 1}]},
            {"f:ports": {HTTP: {"f:name": {}}}},
            {},
            {"f:ports": {HTTP: {"f:nodePort": {}}}},
        ),
        ({"ports": [{"port": 80}] * 2}, {"ports": [{"port": 80}] * 3}, {}, {"f:ports": {HTTP: {}}}, {}),
        (
            {"ports": [{"port": 80}]},
            {"ports": [{"port": 80}] * 2},
            {"f:ports": {HTTP: {".": {}, "f:port": {}}}},
            {},
            {"f:ports": {HTTP: {}}},
        ),
        (
            {"ports": [{"port": 80}] * 2},
            {"ports": [{"port": 80}]},
            {"f:ports": {HTTP: {}}},
            {},
            {"f:ports": {HTTP: {".": {}, "f:port": {}}}},
        ),
    ],
)
def test_differences_are_removed_modified_or_added(old: Any, new: Any, removed: Any, modified: Any, added: Any) -> None:
    found = compare(old, new, _spec())

    assert [field_sets.encode(fields) for fields in found] == [removed, modified, added]


def test_item_without_key_is_an_error() -> None:
    account = shapes.of("v1", "ServiceAccount", "k8s.io")
    assert account is not None
    config: dict[str, Any] = {"secrets": [{}]}

    with pytest.raises(InvalidElement, match='omits key field "name"'):
        fields_of(config, account)
    with pytest.raises(InvalidElement, match='omits key field "name"'):
        compare({}, config, account)


def test_item_without_key_uses_the_default() -> None:
    found = fields_of({"imagePullSecrets": [{}], "hostAliases": [{"hostnames": ["a"]}]}, _spec("Pod"))

    assert field_sets.encode(found) == {
        "f:hostAliases": {'k:{"ip":""}': {".": {}, "f:hostnames": {}}},
        "f:imagePullSecrets": {'k:{"name":""}': {}},
    }
