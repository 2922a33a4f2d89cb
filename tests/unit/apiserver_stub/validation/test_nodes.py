"""Tests for the validation of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.defaulting.nodes import default_node
from apiserver_stub.validation.nodes import validate_declared_features, validate_node, validate_node_update
from nodeagent.base.identity import Identity

_TAINT = {"key": "a", "effect": "NoSchedule"}
_PREFIX = "scheduler.alpha.kubernetes.io"


def _node(status: Any = None, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations or {}}, "spec": spec, "status": status or {}}


def _texts(causes: list[Any]) -> list[str]:
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (_node(), []),
        (_node(taints=[_TAINT, _TAINT | {"effect": "NoExecute"}]), []),
        (_node(taints=[_TAINT | {"effect": "Never"}]), ["NotSupported metadata.taints[0].effect"]),
        (_node(taints=[{"key": "a"}]), ["Required metadata.taints[0].effect"]),
        (
            _node(taints=[_TAINT | {"key": "a b", "value": "c d"}]),
            ["Invalid metadata.taints[0].key", "Invalid metadata.taints[0].value"],
        ),
        (_node(taints=[_TAINT, _TAINT]), ["Duplicate metadata.taints[1]"]),
        (_node(podCIDRs=["10.0.0.0/24", "fd00::/64"]), []),
        (_node(podCIDRs=["x"]), ["Invalid spec.podCIDRs[0]"]),
        (_node(podCIDRs=["10.0.0.0/24", "10.0.1.0/24"]), ["Invalid spec.podCIDRs"]),
        (_node(podCIDRs=["10.0.0.0/24", "10.0.0.0/24"]), ["Invalid spec.podCIDRs", "Duplicate spec.podCIDRs[1]"]),
        (
            _node(podCIDRs=["10.0.0.0/24", "x"]),
            ["Invalid spec.podCIDRs[1]", "InternalError spec.podCIDRs", "Invalid spec.podCIDRs"],
        ),
        (_node(status={"capacity": {"cpu": "-1"}}), ["Invalid status.capacity.cpu"]),
        (_node(status={"allocatable": {"example.com/gpu": "500m"}}), ["Invalid status.allocatable.example.com/gpu"]),
        (_node(annotations={f"{_PREFIX}/taints": "x"}), ["Invalid metadata.annotations"]),
        (
            _node(annotations={f"{_PREFIX}/taints": '[{"key":"a"}]'}),
            [f"Required metadata.annotations.{_PREFIX}/taints[0].effect"],
        ),
        (_node(annotations={f"{_PREFIX}/preferAvoidPods": "x"}), ["Invalid metadata.annotations.AvoidPods"]),
        (
            _node(annotations={f"{_PREFIX}/preferAvoidPods": '{"preferAvoidPods":[{}]}'}),
            [f"Required metadata.annotations.{_PREFIX}/preferAvoidPods[0].PodSignature"],
        ),
    ],
)
def test_errors_of_node_are_reported(node: dict[str, Any], expected: list[str]) -> None:
    assert _texts(validate_node(node, Identity())) == expected


_ADDRESS = {"type": "InternalIP", "address": "192.0.2.1"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (_node(), _node(podCIDRs=["10.0.0.0/24"], providerID="a"), []),
        (_node(podCIDRs=["a"]), _node(podCIDRs=["b"]), ["Forbidden spec.podCIDRs"]),
        (_node(podCIDRs=["a", "b"]), _node(podCIDRs=["a"]), ["Forbidden spec.podCIDRs"]),
        (_node(providerID="a"), _node(), ["Forbidden spec.providerID"]),
        (_node(externalID="a"), _node(), ["Forbidden spec.externalID"]),
        (_node(), _node(status={"addresses": [_ADDRESS, _ADDRESS]}), ["Duplicate status.addresses[1]"]),
        (_node(), _node(taints=[{"key": "a"}]), ["Required metadata.taints[0].effect"]),
    ],
)
def test_errors_of_node_update_are_reported(old: dict[str, Any], new: dict[str, Any], expected: list[str]) -> None:
    assert _texts(validate_node_update(new, old, Identity())) == expected


@pytest.mark.parametrize(
    ("given", "blocks"),
    [
        ({"podCIDR": "a"}, ["a"]),
        ({"podCIDRs": ["a", "b"]}, ["a", "b"]),
        ({"podCIDR": "a", "podCIDRs": ["a", "b"]}, ["a", "b"]),
        ({"podCIDR": "c", "podCIDRs": ["a", "b"]}, ["c"]),
    ],
)
def test_older_pod_block_is_authoritative(given: dict[str, Any], blocks: list[str]) -> None:
    node = _node(**given)

    default_node(node)

    assert node["spec"] == {"podCIDR": blocks[0], "podCIDRs": blocks}


def test_allocatable_follows_capacity() -> None:
    node = _node(status={"capacity": {"cpu": "1"}})

    default_node(node)

    assert node["status"] == {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}}


def test_repeated_values_are_shown_as_go_structures() -> None:
    taint = _TAINT | {"timeAdded": "2024-01-02T03:04:05Z"}
    node = _node(taints=[taint, taint], status={"addresses": [_ADDRESS, _ADDRESS]})

    assert [cause.message for cause in validate_node_update(node, _node(), Identity())] == [
        'Duplicate value: core.NodeAddress{Type:"InternalIP", Address:"192.0.2.1"}',
        'Duplicate value: core.Taint{Key:"a", Value:"", Effect:"NoSchedule", TimeAdded:time.Date(2024, time.January, '
        "2, 3, 4, 5, 0, time.Local)}: taints must be unique by key and effect pair",
    ]


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([], []),
        (["A"], []),
        (["A", "B", "C"], []),
        (["B", "A"], ["Invalid f[1]"]),
        (["A", "A"], ["Duplicate f[1]"]),
        (["A b"], ["Invalid f[0]"]),
    ],
)
def test_declared_features_are_sorted_and_unique(features: list[str], expected: list[str]) -> None:
    assert _texts(validate_declared_features(features, "f")) == expected
