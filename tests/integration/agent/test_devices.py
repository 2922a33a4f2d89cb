"""Tests for device plugins: a real runtime, the bundled API server, and the plugin as a process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.device_plugin import Control
from tests.integration.agent.conftest import Node
from tests.integration.programs import ApiServer, NodeAgent, Program, simple_pod, wait_until

WIDGET = "example.com/widget"


class Plugin(Program):
    """Process of the device plugin."""

    def __init__(self, directory: Path, agent: NodeAgent, *options: str) -> None:
        super().__init__("device-plugin", directory)
        self.control, self._options = Control(directory / "plugin"), options
        self.sockets = agent.root / "device-plugins"

    def start(self) -> None:
        self.sockets.mkdir(parents=True, exist_ok=True)
        self.launch(
            "tests.device_plugin", "--resource", WIDGET, "--directory", str(self.sockets),
            "--state", str(self.control.directory), *self._options,
        )  # fmt: skip


@pytest.fixture(scope="module")
def node(containerd: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Plugin]]:
    directory = tmp_path_factory.mktemp("dev")  # The path of a socket is limited to 107 characters.
    api = ApiServer(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    plugin = Plugin(directory, agent)
    plugin.control.set_devices([{"id": f"w{number}"} for number in range(4)])
    try:
        api.start()
        agent.start(syncFrequency="5s", nodeStatusUpdateFrequency="1s")
        plugin.start()
        yield Node(containerd, api, agent), plugin
    finally:
        plugin.kill()
        agent.kill()
        api.stop()
        containerd.remove_pods()


def amounts(node: Node) -> tuple[str | None, str | None]:
    """Return capacity and allocatable of the resource."""
    found = node.api.get("/api/v1/nodes/node-1")
    status = found["status"] if found["kind"] == "Node" else {}
    capacity, allocatable = (status.get(kind, {}).get(WIDGET) for kind in ("capacity", "allocatable"))
    return capacity, allocatable


def pod(name: str, count: int = 1, command: str = "echo $WIDGETS; ls /dev; exec sleep 1000000") -> dict[str, Any]:
    limits = {WIDGET: str(count)}
    return simple_pod(name, command, nodeName="node-1", container={"resources": {"limits": limits}})


def held(node: Node) -> dict[str, list[str]]:
    """Return the devices in the checkpoint by pod UID."""
    data = json.loads((node.agent.root / "device-plugins/kubelet_internal_checkpoint").read_text())["Data"]
    found: dict[str, list[str]] = {}
    for entry in data["PodDeviceEntries"] or ():
        found.setdefault(entry["PodUID"], []).extend(id for ids in entry["DeviceIDs"].values() for id in ids)
    return found


def test_container_has_device_and_environment(node: tuple[Node, Plugin]) -> None:
    cluster, plugin = node
    wait_until(lambda: amounts(cluster) == ("4", "4"), "the node lists the devices")

    cluster.api.create_pod(pod("first", 2))
    first = cluster.phase("first", "Running")
    wait_until(lambda: "zero" in cluster.log(first), "the container has listed its devices")

    lines = cluster.log(first).splitlines()
    assert lines[0] == "w0,w1"
    assert {"w0", "w1"} <= set(lines[1:])
    assert held(cluster) == {first["metadata"]["uid"]: ["w0", "w1"]}
    assert plugin.control.calls("Allocate") == [{"method": "Allocate", "ids": ["w0", "w1"]}]


def test_released_devices_are_allocated_again(node: tuple[Node, Plugin]) -> None:
    cluster, _ = node
    cluster.remove("first")
    cluster.api.create_pod(pod("all", 4))
    all_pod = cluster.phase("all", "Running")
    cluster.api.create_pod(pod("more"))
    more = cluster.phase("more", "Failed")

    assert more["status"]["reason"] == "UnexpectedAdmissionError"
    text = f"requested number of devices unavailable for {WIDGET}. Requested: 1, Available: 0"
    assert more["status"]["message"] == f"Pod was rejected: Allocate failed due to {text}, which is unexpected"
    assert held(cluster) == {all_pod["metadata"]["uid"]: ["w0", "w1", "w2", "w3"]}
    cluster.remove("all", "more")
