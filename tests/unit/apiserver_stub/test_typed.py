"""Tests for configurations to apply: their validation against the schema, and the merge of lists with keys."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub import fieldsets, schema, typed


def _shape(kind: str = "Service") -> schema.Shape:
    found = schema.of("v1", kind)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"type": None, "ports": None, "selector": None}, []),
        ({"ports": [{"port": 2**40, "targetPort": True}]}, []),
        ({"ports": [{"targetPort": "http"}]}, []),
        ({"ports": [{"port": None}, {"port": 80}, {"port": 80, "protocol": "UDP"}]}, []),
        ({"unknown": 1}, [".spec.unknown: field not declared in schema"]),
        ({"type": 5}, [".spec.type: expected string, got &value.valueUnstructured{Value:5}"]),
        ({"publishNotReadyAddresses": 1}, [".spec.publishNotReadyAddresses: expected boolean, got &{1}"]),
        ({"healthCheckNodePort": "a"}, [".spec.healthCheckNodePort: expected numeric (int or float), got string"]),
        ({"selector": []}, [".spec.selector: expected map, got &{[]}"]),
        ({"externalIPs": "a"}, [".spec.externalIPs: expected list, got &{a}"]),
        (
            {"externalIPs": [{}]},
            [".spec.externalIPs[0]: expected string, got &value.valueUnstructured{Value:map[string]interface {}{}}"],
        ),
        ({"ports": [None]}, [".spec.ports: element 0: associative list with keys may not have a null element"]),
        ({"ports": ["a"]}, [".spec.ports: element 0: associative list with keys may not have non-map elements"]),
        ({"ports": [{"port": 1}, {"port": 1}]}, ['.spec.ports: duplicate entries for key [port=1,protocol="TCP"]']),
        (
            {"ports": [{"port": 1, "targetPort": {}}]},
            ['.spec.ports[port=1,protocol="TCP"].targetPort: expected any scalar, got &{map[]}'],
        ),
    ],
)
def test_configuration_follows_the_schema(spec: dict[str, Any], problems: list[str]) -> None:
    assert typed.validate({"apiVersion": "v1", "kind": "Service", "spec": spec}, _shape()) == problems


def test_key_without_default_is_required() -> None:
    config: dict[str, Any] = {"spec": {"containers": [{}], "imagePullSecrets": [{}]}}

    assert typed.validate(config, _shape("Pod")) == [
        ".spec.imagePullSecrets: element 0: associative list with keys has an element that omits key field "
        '"name" (and doesn\'t have default value)'
    ]


def _merged(live: list[str], config: list[str]) -> list[str]:
    ports = _shape().child("spec").child("ports")
    before, after = ([{"port": ord(name), "protocol": "TCP"} for name in names] for names in (live, config))
    return [chr(item["port"]) for item in fieldsets.merge(before, after, ports)]


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

    assert fieldsets.merge(live, config, _shape().child("spec")) == merged
