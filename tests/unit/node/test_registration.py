"""Tests for the node object of a registration."""

from __future__ import annotations

import pytest

from nodeagent.contracts.api import NODES
from nodeagent.contracts.settings import NodeSettings
from nodeagent.node.registration import default_labels, reconcile_patch
from nodeagent.testing import FakeApi, FakeClock, make_config
from tests.unit.node.conftest import MakeNode

KEY = "volumes.kubernetes.io/controller-managed-attach-detach"


@pytest.mark.row("config.enableControllerAttachDetach")
@pytest.mark.parametrize(
    ("before", "enabled", "change"), [({}, True, {KEY: "true"}), ({KEY: "true"}, False, {KEY: None}), ({}, False, None)]
)
def test_attach_detach_annotation_follows_the_setting(
    before: dict[str, str], enabled: bool, change: dict[str, str | None] | None
) -> None:
    node = {"metadata": {"annotations": before}}
    config = make_config(enable_controller_attach_detach=enabled)

    patch = reconcile_patch(node, config, NodeSettings(node_name="n", root_dir="/r", cert_dir="/r"), "amd64")

    assert patch["metadata"].get("annotations") == change


async def test_labels_of_the_flag_override_default_labels(make_node: MakeNode, api: FakeApi, clock: FakeClock) -> None:
    async with make_node(settings={"node_labels": {"kubernetes.io/hostname": "web"}}).running():
        await clock.advance(2)

    node = api.find(NODES, "node-1", "")
    assert node is not None
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "web"


def test_topology_labels_are_reconciled_and_other_labels_kept() -> None:
    zone, kind, region = (
        "topology.kubernetes.io/zone",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
    )
    given = {zone: "b", kind: "", "example.com/rack": "r2", region: ""}
    settings = NodeSettings(node_name="n", root_dir="/r", cert_dir="/r", node_labels=given)
    shown = default_labels("n", "amd64") | {zone: "a", kind: "m5", "example.com/rack": "r1"}

    patch = reconcile_patch({"metadata": {"labels": shown}}, make_config(), settings, "amd64")

    assert patch["metadata"]["labels"] == {zone: "b", kind: None}
