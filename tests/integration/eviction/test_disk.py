"""Tests for disk pressure: a pod that fills the disk is evicted, and the agent keeps its state."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent.plugin_node import entry
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

DISK_MI = 400
CACHE: dict[str, Any] = {"volumes": [{"name": "cache", "emptyDir": {}}]}
MOUNTED = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
FILL = "i=0; while :; do dd if=/dev/zero of=/cache/$i bs=1M count=20 2>/dev/null; i=$((i+1)); usleep 90000; done"
"""200 MB/s; it keeps writing to a full disk."""
LITTLE_MI = 40


class SmallDisk:
    """Node whose agent has its root directory on a small disk."""

    def __init__(self, directory: Path, root: Path, endpoint: str) -> None:
        self.root = root
        self.api = ApiServer(directory)
        self.api.start()
        self.agent = NodeAgent(directory, endpoint, self.api)

    def status(self, name: str) -> Any:
        return (self.api.pod(name) or {}).get("status", {})

    def until(self, name: str, phase: str) -> Any:
        """Wait until a pod has a phase, and return its status."""
        try:
            wait_until(lambda: self.status(name).get("phase") == phase, f"pod {name} is {phase}", 60)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.status(name)}\n{self.agent.tail()}") from None
        return self.status(name)

    def run(self, name: str, *command: str, behavior: str = "") -> None:
        metadata = {"annotations": {"plugin.test/behavior": behavior}}
        self.api.create_pod(simple_pod(name, *command, container=MOUNTED, metadata=metadata, **CACHE))

    def free_mi(self) -> int:
        status = os.statvfs(self.root)
        return status.f_bavail * status.f_frsize >> 20


@pytest.fixture
def node(containerd: Containerd, tmp_path: Path) -> Iterator[SmallDisk]:
    root, image = tmp_path / "root", tmp_path / "disk"
    root.mkdir()
    with image.open("wb") as file:
        file.truncate(DISK_MI << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(root)], check=True)
    built = SmallDisk(tmp_path, root, containerd.endpoint)
    try:
        yield built
    finally:
        built.agent.stop()
        built.api.stop()
        containerd.remove_pods()
        subprocess.run(["umount", "--recursive", "--lazy", str(root)], check=True)


@pytest.mark.row("config.evictionHard")
def test_pod_that_fills_the_disk_is_evicted(node: SmallDisk) -> None:
    node.agent.start(evictionHard={"nodefs.available": "50%"})
    wait_until(lambda: node.api.get("/api/v1/nodes/node-1")["kind"] == "Node", "the node is registered")
    node.run("modest")
    node.until("modest", "Running")
    node.run("filler", FILL)

    filler = node.until("filler", "Failed")

    assert filler["reason"] == "Evicted"
    assert filler["message"].startswith("The node was low on resource: ephemeral-storage. Threshold quantity: ")
    assert node.until("modest", "Running").get("reason") is None
    wait_until(lambda: node.free_mi() > 0.8 * DISK_MI, "the disk is free again")
    node.agent.kill()
    node.agent.start()
    wait_until(lambda: node.agent.healthz()[0] == 200, "the agent is healthy after a restart")
    assert node.status("modest")["containerStatuses"][0]["restartCount"] == 0


def test_plugin_vetoes_and_ranks_evictions(node: SmallDisk, tmp_path: Path) -> None:
    external = {"directory": str(tmp_path / "s"), "plugins": {"shelf": entry(tmp_path, "eviction")}}
    node.agent.plugins = {"external_plugins": external}
    node.agent.start(evictionHard={"nodefs.available": "50%"})
    wait_until(lambda: node.api.get("/api/v1/nodes/node-1")["kind"] == "Node", "the node is registered")
    for name, behavior in (("kept", "keep"), ("modest", ""), ("small", "first")):
        node.run(name, behavior=behavior)
        node.until(name, "Running")
    kept = node.status("kept")
    node.run("filler", "dd if=/dev/zero of=/cache/f bs=1M count=250; exec sleep 1000", behavior="keep")

    node.until("small", "Failed")

    wait_until(lambda: "PluginVetoedEviction" in {e["reason"] for e in node.api.events("filler")}, "the veto")
    assert node.until("modest", "Failed")["reason"] == "Evicted"
    for name in ("kept", "filler"):
        assert node.status(name)["phase"] == "Running"
    assert node.status("kept")["containerStatuses"] == kept["containerStatuses"]


@pytest.mark.row("config.evictionHard")
def test_agent_started_on_a_full_disk_frees_space_and_keeps_pods(node: SmallDisk) -> None:
    node.agent.start(evictionHard={"nodefs.available": "1Ki"}, localStorageCapacityIsolation=False)
    wait_until(lambda: node.api.get("/api/v1/nodes/node-1")["kind"] == "Node", "the node is registered")
    node.run("modest")
    modest = node.until("modest", "Running")
    node.run("filler", FILL)
    wait_until(lambda: node.free_mi() == 0, "the disk is full")
    node.agent.kill()

    node.agent.start(evictionHard={"nodefs.available": f"{LITTLE_MI}Mi"})

    assert node.until("filler", "Failed")["reason"] == "Evicted"
    wait_until(lambda: node.free_mi() > 0.8 * DISK_MI, "the disk is free again")
    wait_until(lambda: node.agent.healthz()[0] == 200, "the agent is healthy")
    assert node.until("modest", "Running")["containerStatuses"] == modest["containerStatuses"]
