"""Tests of devices, exclusive CPUs and memory on a virtual machine with two NUMA nodes.

CPU 0 and part of the memory of NUMA node 0 are reserved, so only CPU 1 on NUMA node 1 is available to Guaranteed pods.
"""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.programs import simple_pod, wait_until
from tests.vm.machine import NODE, VirtualNode, main_container, pod_slice

pytestmark = pytest.mark.timeout(3600)

HOME, PYTHON = "/var/lib/device-test", "/usr/local/lib/nodeagent/bin/python"
KUBELET_ROOT = "/var/lib/kubelet"
RESOURCE = "example.com/widget"
UNIT = f"""\
[Unit]
Description=Device plugin for tests
[Service]
WorkingDirectory={HOME}
ExecStart={PYTHON} -m tests.device_plugin --directory {KUBELET_ROOT}/device-plugins --state {HOME}/state
Restart=always
"""
DEVICES = [{"id": "far", "nodes": [0]}, {"id": "near", "nodes": [1]}]
LIST = """
import asyncio, sys
import grpc.aio
from google.protobuf.json_format import MessageToJson
from nodeagent.base.pluginproto import podresources_pb2 as api
async def call(method, request, response):
    async with grpc.aio.insecure_channel("unix://" + sys.argv[1]) as channel:
        function = channel.unary_unary("/v1.PodResourcesLister/" + method,
            request_serializer=lambda each: each.SerializeToString(), response_deserializer=response.FromString)
        print(MessageToJson(await function(request, timeout=60), indent=None))
asyncio.run(call("List", api.ListPodResourcesRequest(), api.ListPodResourcesResponse))
asyncio.run(call("GetAllocatableResources", api.AllocatableResourcesRequest(), api.AllocatableResourcesResponse))
"""


@pytest.fixture(scope="module")
def devices(numa_node: VirtualNode) -> VirtualNode:
    """Virtual node with a device plugin that has a device per NUMA node."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for file in sorted(Path("tests/device_plugin").glob("*.py")):
            tar.add(file)
    content = base64.b64encode(archive.getvalue()).decode()
    numa_node.run(f"mkdir -p {HOME}/state; base64 -d | tar xz -C {HOME}", text=content)
    numa_node.write(f"{HOME}/state/devices.json", json.dumps(DEVICES))
    numa_node.write("/etc/systemd/system/device-test.service", UNIT)
    numa_node.run("systemctl start device-test")
    wait_until(lambda: widgets(numa_node) == "2", "the devices are allocatable", 300, 2.0)
    return numa_node


def widgets(node: VirtualNode) -> str:
    return str(node.node()["status"]["allocatable"].get(RESOURCE, ""))


def aligned(name: str, **amounts: str) -> dict[str, Any]:
    limits = {"cpu": "1", "memory": "64Mi", **amounts}
    return simple_pod(name, nodeName=NODE, container={"resources": {"limits": limits}})


def test_virtual_machine_has_two_numa_nodes(devices: VirtualNode) -> None:
    found = devices.run("cat /sys/devices/system/node/node[01]/cpulist").split()
    assert found == ["0", "1"]


def test_container_has_cpu_and_memory_of_one_numa_node(devices: VirtualNode) -> None:
    devices.create(aligned("same-node", **{RESOURCE: "1"}))
    pod = devices.wait_for_running("same-node", seconds=600)["same-node"]
    scope = f"{pod_slice(pod)}/cri-containerd-{main_container(pod)[0]}.scope"

    assert devices.run(f"cat {scope}/cpuset.cpus {scope}/cpuset.mems").split() == ["1", "1"]


def test_pod_resources_show_numa_nodes(devices: VirtualNode) -> None:
    socket = f"{KUBELET_ROOT}/pod-resources/kubelet.sock"
    lines = devices.run(f"{PYTHON} - {socket}", text=LIST).splitlines()
    used, allocatable = map(json.loads, lines)
    (pod,) = (each for each in used["podResources"] if each["name"] == "same-node")
    (container,) = pod["containers"]
    (device,) = container["devices"]
    (memory,) = container["memory"]

    assert device["deviceIds"] == ["near"]
    assert [int(node.get("ID", 0)) for node in device["topology"]["nodes"]] == [1]
    assert container["cpuIds"] == ["1"]
    assert int(memory["size"]) == 64 << 20
    assert [int(node.get("ID", 0)) for node in memory["topology"]["nodes"]] == [1]
    by_device = {each["deviceIds"][0]: each["topology"]["nodes"] for each in allocatable["devices"]}
    assert {name: int(nodes[0].get("ID", 0)) for name, nodes in by_device.items()} == {"far": 0, "near": 1}


def test_pod_that_needs_two_numa_nodes_is_rejected(devices: VirtualNode) -> None:
    devices.delete("same-node")
    devices.wait_for_end("same-node", seconds=600)
    devices.create(aligned("both-nodes", **{RESOURCE: "2"}))

    def failed() -> Any:
        status = devices.pods()["both-nodes"]["status"]
        return status if status["phase"] == "Failed" else None

    status = wait_until(failed, "the pod is rejected", 300, 2.0)
    assert status["reason"] == "TopologyAffinityError"
    devices.delete("both-nodes")
    devices.wait_for_end("both-nodes", seconds=300)
