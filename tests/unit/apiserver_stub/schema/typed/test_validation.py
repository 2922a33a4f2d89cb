"""Tests for the validation of configurations against the schema."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.schema import shapes
from apiserver_stub.schema.typed.validation import summary, validate


def _shape(kind: str = "Service") -> shapes.Shape:
    found = shapes.of("v1", kind, "k8s.io")
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
        ({"ports": [{"port": 1, "targetPort": {}}]}, []),
        ({"selector": {"a": 1.5}}, [".spec.selector.a: expected string, got &value.valueUnstructured{Value:1.5}"]),
    ],
)
def test_configuration_follows_the_schema(spec: dict[str, Any], problems: list[str]) -> None:
    assert validate({"apiVersion": "v1", "kind": "Service", "spec": spec}, _shape()) == problems


def test_key_without_default_is_required() -> None:
    assert validate({"secrets": [{}]}, _shape("ServiceAccount")) == [
        '.secrets: element 0: associative list with keys has an element that omits key field "name" '
        "(and doesn't have default value)"
    ]


def test_key_with_default_is_optional() -> None:
    config: dict[str, Any] = {
        "spec": {"containers": [{}], "imagePullSecrets": [{}], "hostAliases": [{}]},
        "status": {"podIPs": [{}]},
    }

    assert validate(config, _shape("Pod")) == []


def test_stored_objects_may_contain_duplicate_items() -> None:
    config = {"spec": {"ports": [{"port": 1}, {"port": 1}, {"port": "a"}]}}

    assert validate(config, _shape(), repeats=True) == [
        '.spec.ports[port="a",protocol="TCP"].port: expected numeric (int or float), got string'
    ]


def test_items_of_a_set_must_be_scalars() -> None:
    for item, problem in (({}, "a map type"), (None, "an explicit null")):
        text = f"element 0: associative list without keys has an element that's {problem}"
        assert validate({"metadata": {"finalizers": [item]}}, _shape()) == [f".metadata.finalizers: {text}"]


def test_errors_are_listed_below_each_other() -> None:
    assert summary(["a"]) == "a"
    assert summary(["a", "b"]) == "errors:\n  a\n  b"
