"""Tests for a pod that a third-party policy rejects, and the reports of the deciding plugin."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.integration.agent.conftest import Node
from tests.integration.plugins.test_example_policy import SETTINGS, SOURCE, Environment
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

LISTENER = """
    from pathlib import Path

    from nodeagent import hookimpl


    @hookimpl
    async def nodeagent_event_recorded(event):
        with Path(__file__).with_name("recorded").open("a") as file:
            file.write(f"{event.regarding.name} {event.type} {event.reason}\\n")
"""


@pytest.mark.row("card.third-party-plugin")
def test_rejection_is_in_status_event_and_plugin_list(containerd, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install(SOURCE)
    environment.add_module("told_events", LISTENER)
    api, agent = ApiServer(tmp_path), NodeAgent(tmp_path, containerd.endpoint)
    agent.api, agent.python = api, str(environment.python)
    agent.plugins = yaml.safe_load(SETTINGS)["plugins"]
    node = Node(containerd, api, agent)
    try:
        api.start()
        agent.start()
        api.create_pod(simple_pod("bad", nodeName="node-1"))

        pod = node.phase("bad", "Failed")

        assert pod["status"]["reason"] == "ImagePolicy"
        assert "is not from an allowed registry" in pod["status"]["message"]
        wait_until(lambda: "ImagePolicy" in node.reasons("bad"), "the refusal is told")
        recorded_file = environment.packages / "recorded"
        line = "bad Warning ImagePolicy"
        wait_until(
            lambda: recorded_file.exists() and line in recorded_file.read_text().splitlines(),
            "the listener learns of it",
        )

        def decided() -> bool:
            command = [agent.python, "-m", "nodeagent", "plugins", "list", "-o", "json", "--root-dir", str(agent.root)]
            listed = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
            return any(
                decision["plugin"] == "example_policy.admission" and decision["subject"] == "default/bad"
                for decision in listed["decisions"]
            )

        wait_until(decided, "the list of plugins tells who decided")
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()
