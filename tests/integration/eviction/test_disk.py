"""A pod fills the node's disk as fast as it can: it goes, the agent lives and so does what it knows."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

DISK_MI = 400
CACHE: dict[str, Any] = {"volumes": [{"name": "cache", "emptyDir": {}}]}
MOUNTED = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk for the agent's root directory."""
    place = tmp_path / "root"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MI}m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--recursive", "--lazy", str(place)], check=True)


@pytest.mark.row("config.evictionHard")
def test_a_pod_that_fills_the_disk_goes_and_the_agent_lives(containerd: Containerd, tmp_path: Path, disk: Path) -> None:
    api, agent = ApiServer(tmp_path), NodeAgent(tmp_path, containerd.endpoint)
    agent.api = api

    def status(name: str) -> Any:
        return (api.pod(name) or {}).get("status", {})

    def until(name: str, phase: str) -> Any:
        try:
            wait_until(lambda: status(name).get("phase") == phase, f"pod {name} is {phase}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{status(name)}\n{agent.tail()}") from None
        return status(name)

    try:
        api.start()
        agent.start(evictionHard={"nodefs.available": "50%"})
        wait_until(lambda: api.get("/api/v1/nodes/node-1")["kind"] == "Node", "the node is registered")
        api.create_pod(simple_pod("modest", container=MOUNTED, **CACHE))
        until("modest", "Running")
        fill = "i=0; while :; do dd if=/dev/zero of=/cache/$i bs=20M count=1; i=$((i+1)); usleep 100000; done"
        api.create_pod(simple_pod("filler", fill, container=MOUNTED, **CACHE))

        filler = until("filler", "Failed")

        assert filler["reason"] == "Evicted"
        assert filler["message"].startswith(
            "The node was low on resource: ephemeral-storage. Threshold quantity: 200Mi"
        )
        assert until("modest", "Running").get("reason") is None
        wait_until(lambda: os.statvfs(disk).f_bavail > 0.9 * os.statvfs(disk).f_blocks, "the disk is free again")
        assert agent.alive()
        agent.kill()
        agent.start()
        wait_until(lambda: agent.healthz()[0] == 200, "the agent is healthy after a restart")
        assert status("modest")["containerStatuses"][0]["restartCount"] == 0
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()
