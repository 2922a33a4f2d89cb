"""Tests for out-of-process plugins of a real agent: decisions, failures, restarts and limits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import external_plugin
from tests.integration.agent.conftest import Node
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

ROOT = Path(__file__).parents[3]
PLUGIN = [sys.executable, str(Path(external_plugin.__file__).with_name("__main__.py"))]


def pod(name: str, behavior: str = "admit") -> dict[str, Any]:
    """Return a pod for which the plugin behaves as specified."""
    return simple_pod(name, nodeName="node-1", metadata={"annotations": {"plugin.test/behavior": behavior}})


def plugins(node: Node) -> dict[str, Any]:
    """Return the report about plugins by name."""
    command = [sys.executable, "-m", "nodeagent", "plugins", "list", "-o", "json", "--root-dir", str(node.agent.root)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    return {plugin["name"]: plugin for plugin in json.loads(done.stdout)["plugins"]}


@pytest.fixture(scope="module")
def node(containerd, tmp_path_factory):
    directory = tmp_path_factory.mktemp("oop")
    api, agent = ApiServer(directory), NodeAgent(directory, containerd.endpoint)
    agent.api = api
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", "GO": str(directory / "go")}
    entry = {"command": PLUGIN, "env": environment, "user": 0, "capabilities": ["admission"]}
    agent.plugins = {
        "external_plugins": {"directory": str(directory / "s"), "plugins": {"shelf": entry}},
    }
    started = Node(containerd, api, agent)
    try:
        api.start()
        agent.start()
        wait_until(lambda: "Registered out-of-process plugin" in agent.tail(200), "the plugin is registered")
        yield started
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def test_admission_decisions_are_effective(node: Node) -> None:
    node.api.create_pod(pod("rejected", "reject"))
    node.api.create_pod(pod("waiting", "wait"))
    node.api.create_pod(pod("good"))

    node.phase("good", "Running")
    rejected = node.phase("rejected", "Failed")

    assert rejected["status"]["reason"] == "NotToday"
    assert rejected["status"]["message"] == "Pod was rejected: try another node"
    wait_until(lambda: "AdmissionDelayed" in node.reasons("waiting"), "the event of the delay")
    (node.agent.directory / "go").touch()
    node.phase("waiting", "Running")
    listed = plugins(node)["shelf"]
    assert (listed["state"], listed["origin"]) == ("ok", sys.executable)
    assert listed["hooks"] == ["nodeagent_admit_pod", "nodeagent_provide_background_loops"]
    node.remove("good", "rejected", "waiting")
