"""What the node object says of who attaches volumes."""

from __future__ import annotations

import pytest

from nodeagent.config.settings import NodeSettings
from nodeagent.node.registration import reconcile_patch
from nodeagent.testing import make_config

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
