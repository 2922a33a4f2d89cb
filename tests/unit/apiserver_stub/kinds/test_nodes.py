"""Tests for nodes: immutable fields, columns, dropped fields."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds.nodes import NodeStrategy, is_ready, resources
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import kind_settings
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release


def node(**spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"metadata": {"name": "n"}, "spec": spec}
    strategy = NodeStrategy(Identity())
    strategy.default(made)
    strategy.prepare_create(made)
    return made


def test_dynamic_configuration_is_dropped() -> None:
    made = node(configSource={"configMap": {}})
    assert made["spec"] == {}

    new = {**made, "spec": {"configSource": {}}}
    NodeStrategy(Identity()).prepare_update(new, made, "")
    assert new["spec"] == {}


def test_external_id_causes_a_warning() -> None:
    assert NodeStrategy(Identity()).warnings(node(externalID="a"), None) == [
        "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    ]
    assert NodeStrategy(Identity()).warnings(node(), None) == []


def test_empty_node_info_is_printed_as_unknown() -> None:
    (nodes,) = resources(kind_settings(Options()))
    cells = {column.name: column.cell(node()) for column in nodes.columns if column.name != "Age"}
    assert {cells[name] for name in ("OS-Image", "Kernel-Version", "Container-Runtime")} == {"<unknown>"}
    assert cells["Version"] == ""


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ({"podCIDR": "10.1.0.0/24"}, {"podCIDR": "10.2.0.0/24"}, "spec.podCIDRs"),
        ({"podCIDR": "10.1.0.0/24"}, {}, "spec.podCIDRs"),
        ({"providerID": "a://1"}, {"providerID": "a://2"}, "spec.providerID"),
    ],
)
def test_pod_cidr_and_provider_id_are_immutable(old: dict[str, Any], new: dict[str, Any], field: str) -> None:
    (cause,) = NodeStrategy(Identity()).validate_update(node(**new), node(**old), "")
    assert (cause.field, cause.reason) == (field, "FieldValueForbidden")

    assert NodeStrategy(Identity()).validate_update(node(**old), node(), "") == []


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (["A", "B/c"], []),
        (["B", "A"], ["list must be sorted alphabetically"]),
        (["A", "A"], ["Duplicate value"]),
        (["a"], ["must start with an UpperCamelCase segment"]),
    ],
)
def test_declared_features_are_sorted_names(features: list[str], expected: list[str]) -> None:
    node = {"metadata": {"name": "n"}, "spec": {}, "status": {"declaredFeatures": features}}
    causes = NodeStrategy(Identity(), build_gates({}, Release(1, 36))).validate(node)

    assert len(causes) == len(expected)
    assert all(text in cause.message for text, cause in zip(expected, causes, strict=True))


@pytest.mark.parametrize(
    ("release", "kept"),
    [
        (Release(1, 29), ["declaredFeatures", "features", "runtimeHandlers"]),
        (Release(1, 31), ["declaredFeatures", "runtimeHandlers"]),
        (Release(1, 35), ["features", "runtimeHandlers"]),
        (Release(1, 36), ["declaredFeatures", "features", "runtimeHandlers"]),
    ],
)
def test_status_fields_of_disabled_gates_are_dropped_from_new_node(release: Release, kept: list[str]) -> None:
    status = {"declaredFeatures": ["A"], "features": {"supplementalGroupsPolicy": True}, "runtimeHandlers": [{}]}
    node = {"metadata": {"name": "n"}, "spec": {}, "status": status}

    NodeStrategy(Identity(), build_gates({}, release)).prepare_create(node)

    assert sorted(status) == kept


@pytest.mark.parametrize(
    ("conditions", "unschedulable", "text", "ready"),
    [
        (None, False, "Unknown", False),
        ([], True, "Unknown,SchedulingDisabled", False),
        ([{"type": "Ready", "status": "True"}], False, "Ready", True),
        ([{"type": "Ready", "status": "Unknown"}], False, "NotReady", False),
        ([{"type": "DiskPressure", "status": "True"}], False, "Unknown", False),
    ],
)
def test_status_of_a_node_follows_its_conditions(
    conditions: Any, text: str, *, unschedulable: bool, ready: bool
) -> None:
    (nodes,) = resources(kind_settings(Options()))
    found = {"metadata": {"name": "n"}, "spec": {"unschedulable": unschedulable}, "status": {"conditions": conditions}}

    assert next(column.cell(found) for column in nodes.columns if column.name == "Status") == text
    assert is_ready(found) is ready


@pytest.mark.parametrize(("subresource", "dropped"), [("", True), ("status", False)])
def test_disabled_fields_are_dropped_only_from_complete_nodes(subresource: str, *, dropped: bool) -> None:
    release = Release(1, 29)
    strategy = NodeStrategy(Identity(), build_gates({}, release))
    new, old = node(), node()
    new["status"] = {"declaredFeatures": ["A"]}
    old["status"] = {"declaredFeatures": ["A"]} if subresource else {}

    strategy.prepare_update(new, old, subresource)

    assert (new["status"].get("declaredFeatures") is None) is dropped
