"""Tests for labels, annotations and taints of the node that plugins report."""

from __future__ import annotations

from typing import Any

from nodeagent.contracts.node import NodeReport, NodeTaint
from nodeagent.node.metadata import _merged, metadata_patch, taints_patch, with_reports

NODE: dict[str, Any] = {"metadata": {"name": "n", "labels": {"zone": "a"}, "resourceVersion": "7"}, "spec": {}}
RACK = NodeReport(labels={"rack": "r1"})
HOT = NodeReport(taints=[NodeTaint("hot", "", "NoSchedule")])


def applied(node: dict[str, Any], reports: dict[str, NodeReport], *reporting: str) -> dict[str, Any]:
    """Return the node after both patches."""
    for make in (metadata_patch, taints_patch):
        node = _merged(node, make(node, reports, reporting or reports))
    return node


def test_reported_metadata_is_added_once() -> None:
    node = applied(NODE, {"shelf": RACK, "fan": HOT})

    assert node["metadata"]["labels"] == {"zone": "a", "rack": "r1"}
    assert node["spec"]["taints"] == [{"key": "hot", "effect": "NoSchedule"}]
    assert metadata_patch(node, {"shelf": RACK, "fan": HOT}, ("shelf", "fan")) == {}
    assert taints_patch(node, {"shelf": RACK, "fan": HOT}, ("shelf", "fan")) == {}


def test_metadata_is_removed_after_its_last_report() -> None:
    node = applied(NODE, {"shelf": RACK, "fan": HOT})

    node = applied(node, {"shelf": NodeReport(), "fan": NodeReport()})

    assert node["metadata"]["labels"] == {"zone": "a"}
    assert node["spec"]["taints"] == []
    assert node["metadata"]["annotations"] == {}


def test_metadata_of_a_plugin_that_does_not_respond_is_kept() -> None:
    node = applied(NODE, {"shelf": RACK, "fan": HOT})

    assert applied(node, {}, "shelf", "fan") == node
    assert applied(node, {}, "other")["spec"]["taints"] == []


def test_metadata_of_other_components_is_not_changed() -> None:
    taint = {"key": "hot", "value": "mine", "effect": "NoSchedule"}
    node = {"metadata": {"labels": {"rack": "other"}}, "spec": {"taints": [taint]}}

    assert applied(node, {"shelf": RACK, "fan": HOT}) == node


def test_changed_value_is_updated() -> None:
    node = applied(NODE, {"shelf": RACK, "fan": HOT})

    changed = {
        "shelf": NodeReport(labels={"rack": "r2"}),
        "fan": NodeReport(taints=[NodeTaint("hot", "x", "NoSchedule")]),
    }
    node = applied(node, changed)

    assert node["metadata"]["labels"]["rack"] == "r2"
    assert node["spec"]["taints"] == [{"key": "hot", "value": "x", "effect": "NoSchedule"}]


def test_annotations_are_set_and_removed() -> None:
    node = applied(NODE, {"shelf": NodeReport(annotations={"a": "1"})})
    assert node["metadata"]["annotations"] == {"a": "1"}

    assert applied(node, {"shelf": NodeReport(annotations={"a": None})})["metadata"]["annotations"] == {}


def test_patch_of_taints_requires_the_same_version() -> None:
    assert taints_patch(NODE, {"fan": HOT}, ("fan",))["metadata"]["resourceVersion"] == "7"


def test_new_node_has_the_reported_metadata() -> None:
    node = with_reports({"metadata": {"labels": {}}, "spec": {}}, {"shelf": RACK, "fan": HOT})

    assert node["metadata"]["labels"] == {"rack": "r1"}
    assert node["spec"]["taints"] == [{"key": "hot", "effect": "NoSchedule"}]
