"""Tests for the example of an out-of-process plugin in JavaScript: its tests, the check, and a real agent."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.agent.conftest import Node
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "plugins" / "example_external"
LIBRARIES = ROOT / "build" / "example-external" / "node_modules"
"""Installed by tools/test-parts."""
NODEAGENT = [sys.executable, "-m", "nodeagent"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the protocol and its libraries."""
    directory = tmp_path_factory.mktemp("js")
    for file in SOURCE.iterdir():
        if file.is_file():
            shutil.copy(file, directory)
    (directory / "node_modules").symlink_to(LIBRARIES)
    protocol = subprocess.run([*NODEAGENT, "plugins", "protocol"], capture_output=True, check=True, timeout=60).stdout
    (directory / "plugin.proto").write_bytes(protocol)
    return directory


def test_tests_of_the_example_pass(project: Path) -> None:
    done = subprocess.run(["node", "--test"], cwd=project, capture_output=True, check=False, timeout=60, text=True)
    assert done.returncode == 0, done.stdout


def test_check_of_the_example_has_no_findings(project: Path) -> None:
    command = [*NODEAGENT, "plugins", "check", str(project)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, text=True)
    assert (done.returncode, done.stdout) == (0, "0 problems found\n"), done.stdout + done.stderr


def test_agent_uses_the_example(containerd, project: Path, tmp_path: Path) -> None:
    api, agent = ApiServer(tmp_path), NodeAgent(tmp_path, containerd.endpoint)
    agent.api = api
    entry = {
        "command": [shutil.which("node"), str(project / "plugin.js")],
        "capabilities": ["admission", "node_report"],
        "settings": {"registries": ["docker.io/library"]},
        "user": 0,  # The user of the tests owns the project.
    }
    agent.plugins = {
        "external_plugins": {"directory": str(tmp_path / "s"), "plugins": {"image_registries": entry}},
    }
    node = Node(containerd, api, agent)
    try:
        api.start()
        agent.start()
        api.create_pod(simple_pod("good", nodeName="node-1"))
        api.create_pod(simple_pod("bad", nodeName="node-1", container={"image": "other.example/app:1"}))

        rejected = node.phase("bad", "Failed")
        node.phase("good", "Running")

        assert rejected["status"]["reason"] == "RegistryNotAllowed"
        wait_until(
            lambda: api.get("/api/v1/nodes/node-1")["metadata"]["labels"].get("example.com/registries") == "1",
            "the label of the node",
        )
        assert 'line="allowing docker.io/library"' in agent.log.read_text()
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()
