"""What registering tells the node object."""

from __future__ import annotations

import pytest

from nodeagent.config.settings import NodeSettings
from nodeagent.contracts.api import NODES
from nodeagent.node.registration import default_labels, reconcile_patch
from nodeagent.testing import FakeApi, FakeClock, make_config
from tests.unit.node.conftest import MakeNode

KEY = "volumes.kubernetes.io/controller-managed-attach-detach"


@pytest.mark.row("config.enableControllerAttachDetach")
@pytest.mark.parametrize(
    ("before", "enabled", "change"), [({}, True, {KEY: "true"}), ({KEY: "true"}, False, {KEY: None}), ({}, False, None)]
)
def test_the_controllers_mark_comes_and_goes_with_the_setting(
    before: dict[str, str], enabled: bool, change: dict[str, str | None] | None
) -> None:
    node = {"metadata": {"annotations": before}}
    config = make_config(enable_controller_attach_detach=enabled)

    patch = reconcile_patch(node, config, NodeSettings(node_name="n", root_dir="/r", cert_dir="/r"), "amd64")

    assert patch["metadata"].get("annotations") == change


async def test_labels_given_by_flag_win_over_what_every_node_has(
    make_node: MakeNode, api: FakeApi, clock: FakeClock
) -> None:
    async with make_node(settings={"node_labels": {"kubernetes.io/hostname": "web"}}).running():
        await clock.advance(2)

    node = api.find(NODES, "node-1", "")
    assert node is not None
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "web"


def test_a_node_that_is_there_gets_its_place_and_kind_by_flag_and_keeps_other_labels() -> None:
    place, kind, region = (
        "topology.kubernetes.io/zone",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
    )
    given = {place: "b", kind: "", "example.com/rack": "r2", region: ""}
    settings = NodeSettings(node_name="n", root_dir="/r", cert_dir="/r", node_labels=given)
    shown = default_labels("n", "amd64") | {place: "a", kind: "m5", "example.com/rack": "r1"}

    patch = reconcile_patch({"metadata": {"labels": shown}}, make_config(), settings, "amd64")

    assert patch["metadata"]["labels"] == {place: "b", kind: None}
