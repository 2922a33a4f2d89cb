"""Tests for the merge of values with a schema, and the removal of fields."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.schema import field_sets, shapes
from apiserver_stub.schema.typed.merging import merge, remove


def _shape(kind: str = "Service") -> shapes.Shape:
    found = shapes.of("v1", kind, "k8s.io")
    assert found is not None
    return found


def _merged(live: list[str], config: list[str]) -> list[str]:
    ports = _shape().child("spec").child("ports")
    before, after = ([{"port": ord(name), "protocol": "TCP"} for name in names] for names in (live, config))
    return [chr(item["port"]) for item in merge(before, after, ports)]


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ("ab", "", "ab"),
        ("", "ab", "ab"),
        ("ab", "c", "abc"),
        ("ab", "ca", "cab"),
        ("abc", "cxa", "bcxa"),
        ("abcd", "dxb", "acdxb"),
        ("aab", "bx", "aabx"),
    ],
)
def test_items_of_a_configuration_keep_their_order(live: str, config: str, merged: str) -> None:
    assert "".join(_merged([*live], [*config])) == merged


@pytest.mark.parametrize(
    ("config", "merged"),
    [
        ({"type": None}, {"type": None, "ports": [{"port": 80}], "selector": {"a": "b"}}),
        ({"ports": None}, {"type": "ClusterIP", "ports": [{"port": 80}], "selector": {"a": "b"}}),
        ({"selector": None}, {"type": "ClusterIP", "ports": [{"port": 80}], "selector": None}),
    ],
)
def test_null_replaces_values_with_one_owner(config: dict[str, Any], merged: dict[str, Any]) -> None:
    live = {"type": "ClusterIP", "ports": [{"port": 80}], "selector": {"a": "b"}}

    assert merge(live, config, _shape().child("spec")) == merged


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({}, {"ports": [{"port": 80, "name": "a"}], "selector": {"a": "b"}, "type": "ClusterIP"}),
        ({"f:type": {}}, {"ports": [{"port": 80, "name": "a"}], "selector": {"a": "b"}}),
        (
            {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:name": {}}}},
            {"ports": [{"port": 80}], "selector": {"a": "b"}, "type": "ClusterIP"},
        ),
        (
            {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {}}},
            {"ports": None, "selector": {"a": "b"}, "type": "ClusterIP"},
        ),
        (
            {"f:selector": {"f:a": {}}},
            {"ports": [{"port": 80, "name": "a"}], "selector": None, "type": "ClusterIP"},
        ),
    ],
)
def test_removed_fields_leave_null_for_emptied_values(fields: Any, left: Any) -> None:
    spec = {"ports": [{"port": 80, "name": "a"}], "selector": {"a": "b"}, "type": "ClusterIP"}

    assert remove(spec, field_sets.decode(fields), _shape().child("spec")) == left
