"""Tests for SIGHUP: a changed configuration is applied, an invalid one is rejected, and pods keep running."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.agent.conftest import Node
from tests.integration.agent.service import NotifySocket
from tests.integration.programs import NodeAgent, simple_pod, wait_until

STARTS = '"Started nodeagent"'


@pytest.fixture
def node(own: Node) -> Node:
    """Node with one running pod."""
    own.api.create_pod(simple_pod("web", nodeName="node-1"))
    own.phase("web", "Running")
    return own


def change(node: Node, text: str = "", **fields: Any) -> None:
    """Rewrite the configuration file."""
    file = node.agent.directory / "config.yaml"
    file.write_text(text or yaml.safe_dump(yaml.safe_load(file.read_text()) | fields))


def hang_up(node: Node) -> None:
    os.kill(node.agent.pid, signal.SIGHUP)


def starts(node: Node) -> int:
    return node.agent.log.read_text().count(STARTS)


def container(node: Node) -> Any:
    (status,) = node.api.pod("web")["status"]["containerStatuses"]
    return status["containerID"], status["restartCount"]


def capacity(node: Node) -> str:
    return str(node.api.get("/api/v1/nodes/node-1")["status"]["capacity"]["pods"])


def test_changed_configuration_is_applied_in_the_same_process(node: Node) -> None:
    before = container(node)
    change(node, maxPods=41)

    hang_up(node)

    wait_until(lambda: capacity(node) == "41", "the change is in force", 30)
    assert 'changed="maxPods"' in node.agent.log.read_text()
    assert node.agent.alive(), "the process that was started first goes on"
    assert container(node) == before
    change(node, maxPods=42)
    hang_up(node)
    wait_until(lambda: capacity(node) == "42", "it goes on like that", 30)


def test_invalid_configuration_is_rejected_with_all_problems(node: Node) -> None:
    before = container(node)
    change(node, maxPods=-1, syncFrequency="soon")

    hang_up(node)

    def rejected() -> bool:
        return node.agent.log.read_text().count("keeping the previous one") == 2

    wait_until(rejected, "both problems are told")
    text = node.agent.log.read_text()
    assert "config.yaml:" in text
    assert "maxPods" in text
    assert "syncFrequency" in text
    change(node, text="a: [")
    hang_up(node)
    wait_until(
        lambda: "keeping the previous one" in node.agent.log.read_text().split("syncFrequency")[-1], "it is rejected"
    )
    assert starts(node) == 1
    assert (container(node), capacity(node)) == (before, "110")


def test_failed_start_restores_the_previous_configuration(node: Node) -> None:
    before = container(node)
    change(node, maxPods=43, cgroupRoot="/there-is-no-such-group")

    hang_up(node)

    wait_until(lambda: "restoring the previous one" in node.agent.log.read_text(), "the start is refused")
    wait_until(lambda: starts(node) == 3, "the agent starts again", 30)
    assert "/there-is-no-such-group" in node.agent.log.read_text()
    node.api.create_pod(simple_pod("later", nodeName="node-1"))
    node.phase("later", "Running")
    assert (container(node), capacity(node)) == (before, "110")

    change(node, maxPods=44, cgroupRoot="/")
    hang_up(node)
    wait_until(lambda: capacity(node) == "44", "the next good one counts", 30)


def test_service_manager_is_notified_of_the_reload(containerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = NotifySocket()
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    agent = NodeAgent(tmp_path, containerd.endpoint)
    try:
        agent.begin()
        manager.until("READY=1")
        os.kill(agent.pid, signal.SIGHUP)
        manager.until("RELOADING=1")
        manager.until("READY=1")
        manager.until("WATCHDOG=1", 60)
        agent.stop()
    finally:
        agent.kill()
        manager.close()
