"""Tests for device plugins: a real runtime, the bundled API server, and the plugin as a process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.plugin_rpc import connect, methods_of
from nodeagent.base.pluginproto import podresources_pb2
from tests.device_plugin import Control, Faults
from tests.integration.agent.conftest import Node
from tests.integration.programs import ApiServer, NodeAgent, Program, simple_pod, wait_until

WIDGET = "example.com/widget"
LIST = methods_of(podresources_pb2.DESCRIPTOR.services_by_name["PodResourcesLister"])["List"]


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
        files = {"resources": [{"resource": "example.com/full", "paths": ["/dev/full"], "shares": 2}]}
        agent.plugins["device_files"] = files
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


def listed(node: Node) -> dict[str, list[str]]:
    """Return the devices of pods according to the pod-resources API."""

    async def query() -> Any:
        async with connect(str(node.agent.root / "pod-resources/kubelet.sock"), 10) as connection:
            return await connection.call(LIST, podresources_pb2.ListPodResourcesRequest())

    response = asyncio.run(query())
    return {
        pod.name: [id for each in container.devices for id in each.device_ids]
        for pod in response.pod_resources
        for container in pod.containers
    }


def command(node: Node, *arguments: str) -> str:
    """Return the output of a command of the agent."""
    full = [sys.executable, "-m", "nodeagent", *arguments, "--root-dir", str(node.agent.root)]
    return subprocess.run(full, capture_output=True, text=True, check=False).stdout


def test_restarted_agent_keeps_allocations_while_the_plugin_is_away(node: tuple[Node, Plugin]) -> None:
    cluster, plugin = node
    cluster.api.create_pod(pod("kept", 3))
    kept = cluster.phase("kept", "Running")
    assert listed(cluster) == {"kept": ["w0", "w1", "w2"]}

    plugin.kill()
    cluster.agent.kill()
    cluster.agent.start()
    wait_until(lambda: amounts(cluster) == ("4", "3"), "the node reports the devices in use")
    cluster.api.create_pod(pod("late"))
    late = cluster.until("late", lambda found: "WaitingForDevices" in json.dumps(found["status"]), "the pod waits")
    assert late["status"]["phase"] == "Pending"
    assert cluster.reasons("late") >= {"WaitingForDevices"}
    assert f"waiting for device plugins: {WIDGET}: not registered" in command(cluster, "why", "pod/default/late")
    assert f"main: {WIDGET} w0 Unknown" in command(cluster, "why", "pod/default/kept")
    assert f"devices {WIDGET}: 3 of 4 allocated, 0 healthy" in command(cluster, "status")
    report = json.loads(command(cluster, "devices", WIDGET, "-o", "json"))
    assert report["resources"][0]["waitingPods"] == ["default/late"]

    plugin.start()
    late = cluster.phase("late", "Running")
    wait_until(lambda: cluster.log(late).startswith("w3"), "the pod has the remaining device")
    assert cluster.api.pod("kept")["status"]["containerStatuses"][0]["restartCount"] == 0
    assert listed(cluster) == {"kept": ["w0", "w1", "w2"], "late": ["w3"]}
    uids = {each["metadata"]["uid"]: each for each in (kept, late)}
    assert {uid: len(ids) for uid, ids in held(cluster).items()} == {
        uid: 3 if each is kept else 1 for uid, each in uids.items()
    }
    cluster.remove("kept", "late")


def test_hung_plugin_delays_only_its_own_pods(node: tuple[Node, Plugin]) -> None:
    cluster, plugin = node
    plugin.control.set_faults({"hang": ["Allocate"]})
    cluster.api.create_pod(pod("stuck"))
    wait_until(lambda: listed(cluster).get("stuck"), "a device is reserved")
    cluster.api.create_pod(simple_pod("free", "exec sleep 1000000", nodeName="node-1"))
    cluster.phase("free", "Running")
    assert cluster.api.pod("stuck")["status"]["phase"] == "Pending"

    plugin.control.set_faults({"exit_in": "Allocate"})
    plugin.kill()
    plugin.start()
    wait_until(lambda: not plugin.alive(), "the plugin exits during the next allocation")
    plugin.control.set_faults({})
    plugin.start()
    cluster.phase("stuck", "Running")
    cluster.remove("stuck", "free")


def test_devices_survive_the_loss_of_the_checkpoint(node: tuple[Node, Plugin]) -> None:
    cluster, _ = node
    cluster.api.create_pod(pod("first", 2))
    first = cluster.phase("first", "Running")
    cluster.agent.kill()
    checkpoint = cluster.agent.root / "device-plugins/kubelet_internal_checkpoint"
    checkpoint.write_text("damaged")
    cluster.agent.start()

    wait_until(lambda: amounts(cluster) == ("4", "4"), "the plugin has registered again")
    cluster.api.create_pod(pod("second", 2))
    cluster.phase("second", "Running")
    assert listed(cluster) == {"first": ["w0", "w1"], "second": ["w2", "w3"]}
    assert cluster.api.pod("first")["status"]["containerStatuses"][0]["restartCount"] == 0
    assert cluster.phase("first", "Running")["metadata"]["uid"] == first["metadata"]["uid"]
    cluster.remove("first", "second")


def responding(response: dict[str, Any]) -> Faults:
    return {"response": response}


def test_pod_with_an_invalid_response_fails_and_others_run(node: tuple[Node, Plugin]) -> None:
    cluster, plugin = node
    mounts = [{"containerPath": "/x", "hostPath": "/tmp"}, {"containerPath": "/x", "hostPath": "/var"}]
    plugin.control.set_faults(responding({"mounts": mounts}))
    cluster.api.create_pod(pod("invalid"))
    invalid = cluster.phase("invalid", "Failed")
    assert invalid["status"]["reason"] == "UnexpectedAdmissionError"
    assert "conflicting mounts at container path '/x'" in invalid["status"]["message"]

    plugin.control.set_faults({})
    cluster.api.create_pod(pod("valid", 4))
    cluster.phase("valid", "Running")
    cluster.remove("invalid", "valid")


def test_files_and_patched_resources_are_available_without_a_plugin(node: tuple[Node, Plugin]) -> None:
    cluster, _ = node
    dongle = [{"op": "add", "path": "/status/capacity/example.com~1dongle", "value": "1"}]
    cluster.api.request("PATCH", "/api/v1/nodes/node-1/status", dongle, "application/json-patch+json")
    wait_until(
        lambda: cluster.api.get("/api/v1/nodes/node-1")["status"]["allocatable"].get("example.com/dongle") == "1",
        "the patched resource is allocatable",
    )
    limits = {"example.com/dongle": "1", "example.com/full": "1"}
    command = "test -c /dev/full && echo found; exec sleep 1000000"
    both = simple_pod("both", command, nodeName="node-1", container={"resources": {"limits": limits}})
    cluster.api.create_pod(both)
    found = cluster.phase("both", "Running")
    wait_until(lambda: cluster.log(found) == "found", "the container has the device file")

    cluster.api.create_pod(
        simple_pod("more", nodeName="node-1", container={"resources": {"limits": {"example.com/dongle": "1"}}})
    )
    more = cluster.phase("more", "Failed")
    assert more["status"]["reason"] == "OutOfexample.com/dongle"
    cluster.remove("both", "more")
