"""Tests for resizes: containers keep running with other limits, as their cgroups show."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.quantity import parse_quantity
from tests.integration.agent.conftest import Node
from tests.integration.containerd import Containerd
from tests.integration.programs import NodeAgent, simple_pod, wait_until
from tests.integration.reference import new_api_server

MI = 1024**2
GATE = {"InPlacePodVerticalScaling": True}


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("resize")
    api = new_api_server(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    try:
        api.start("--feature-gates=InPlacePodVerticalScaling=true")
        agent.start(featureGates=GATE)
        yield Node(containerd, api, agent)
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


@pytest.fixture
def later(containerd: Containerd, tmp_path: Path) -> Iterator[Node]:
    """Node of a release with pod-level resources."""
    api = new_api_server(tmp_path)
    agent = NodeAgent(tmp_path, containerd.endpoint, api)
    agent.arguments.append("--compatibility-version=1.36")
    gates = ("InPlacePodVerticalScaling", "InPlacePodLevelResourcesVerticalScaling")
    try:
        api.start(f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}")
        agent.start(failCgroupV1=False)
        yield Node(containerd, api, agent)
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def sized(cpu: str, memory: str, limit_cpu: str = "", limit_memory: str = "") -> dict[str, Any]:
    limits = {"cpu": limit_cpu or cpu, "memory": limit_memory or memory}
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": limits}


def sized_pod(name: str, resources: dict[str, Any], **container: Any) -> dict[str, Any]:
    fields = {"resources": resources, **container}
    return simple_pod(name, "exec sleep 100000", nodeName="node-1", container=fields)


def resize(node: Node, name: str, resources: dict[str, Any]) -> Any:
    patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    path = f"/api/v1/namespaces/default/pods/{name}/resize"
    return node.api.request("PATCH", path, patch, "application/strategic-merge-patch+json")


def main_status(pod: Any) -> Any:
    return (pod.get("status", {}).get("containerStatuses") or [{}])[0]


def conditions(pod: Any) -> dict[str, Any]:
    found = {each["type"]: each for each in pod.get("status", {}).get("conditions") or ()}
    return {name: found[name] for name in ("PodResizePending", "PodResizeInProgress") if name in found}


def in_effect(pod: Any, resources: dict[str, Any]) -> bool:
    return main_status(pod).get("resources") == resources and not conditions(pod)


def execute(node: Node, pod: Any, script: str) -> str:
    """Return the output of a shell script in the container."""
    container = main_status(pod)["containerID"].rpartition("/")[2]
    return node.runtime.ctr("tasks", "exec", "--exec-id", uuid.uuid4().hex, container, "/bin/sh", "-c", script)


def cgroup(node: Node, pod: Any) -> tuple[int, int]:
    """Return memory limit in bytes and cpu quota per 100 ms in microseconds of the running container."""
    script = (
        "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us 2>/dev/null"
        " || { cat memory.max; cut -d' ' -f1 cpu.max; }"
    )
    values: list[str] = []
    for _ in range(5):  # The client can exit before it has received the output.
        if values := execute(node, pod, script).split():
            break
    memory, quota = values
    return int(memory), int(quota)


def test_resized_container_keeps_running_with_its_new_limits(node: Node) -> None:
    node.api.create_pod(sized_pod("grows", sized("100m", "64Mi", "200m", "128Mi")))
    before = node.phase("grows", "Running")
    assert cgroup(node, before) == (128 * MI, 20_000)
    larger = sized("200m", "96Mi", "500m", "192Mi")

    accepted = resize(node, "grows", larger)

    assert accepted["metadata"]["generation"] == before["metadata"]["generation"] + 1
    after = node.until("grows", lambda pod: in_effect(pod, larger), "the resize is complete")
    assert cgroup(node, after) == (192 * MI, 50_000)
    assert main_status(after)["containerID"] == main_status(before)["containerID"]
    assert main_status(after)["restartCount"] == 0
    assert main_status(after)["allocatedResources"] == larger["requests"]
    assert {"ResizeStarted", "ResizeCompleted"} <= node.reasons("grows")
    smaller = sized("100m", "64Mi", "200m", "128Mi")
    resize(node, "grows", smaller)
    after = node.until("grows", lambda pod: in_effect(pod, smaller), "the resize is complete")
    assert cgroup(node, after) == (128 * MI, 20_000)
    node.remove("grows")


def test_container_with_restart_policy_is_restarted_for_a_resize(node: Node) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    node.api.create_pod(sized_pod("restarts", sized("100m", "64Mi"), resizePolicy=policy))
    before = node.phase("restarts", "Running")
    larger = sized("100m", "96Mi")

    resize(node, "restarts", larger)

    after = node.until("restarts", lambda pod: in_effect(pod, larger), "the resize is complete")
    assert main_status(after)["restartCount"] == 1
    assert main_status(after)["containerID"] != main_status(before)["containerID"]
    assert cgroup(node, after) == (96 * MI, 10_000)
    node.remove("restarts")


def test_resize_beyond_the_node_is_rejected(node: Node) -> None:
    node.api.create_pod(sized_pod("small", sized("100m", "64Mi")))
    node.phase("small", "Running")

    rejected = resize(node, "small", sized("1000", "64Mi"))

    assert rejected["code"] == 403
    assert rejected["details"]["causes"] == [{"reason": "NodeCapacity"}]
    assert "node didn't have enough allocatable resources: cpu, requested: 1000000" in rejected["message"]
    node.remove("small")


def test_resize_is_deferred_across_a_restart_until_there_is_room(node: Node) -> None:
    allocatable = node.api.get("/api/v1/nodes/node-1")["status"]["allocatable"]["cpu"]
    most = f"{parse_quantity(allocatable).milli_value() * 2 // 3}m"
    node.api.create_pod(sized_pod("holds", sized(most, "64Mi")))
    node.api.create_pod(sized_pod("waits", sized("100m", "64Mi")))
    node.phase("holds", "Running")
    before = node.phase("waits", "Running")
    larger = sized(most, "64Mi")

    resize(node, "waits", larger)

    pending = node.until("waits", lambda pod: "PodResizePending" in conditions(pod), "the resize is pending")
    assert conditions(pending)["PodResizePending"]["reason"] == "Deferred"
    assert "Node didn't have enough resource: cpu" in conditions(pending)["PodResizePending"]["message"]
    node.agent.stop()
    recorded = json.loads((node.agent.root / "allocated_pods_state").read_text())
    assert '"cpu":"100m"' in recorded["data"]
    node.agent.start()
    node.remove("holds")
    after = node.until("waits", lambda pod: in_effect(pod, larger), "the resize is complete")
    assert main_status(after)["containerID"] == main_status(before)["containerID"]
    node.remove("waits")


def test_limit_below_the_usage_is_an_error_of_the_resize(node: Node) -> None:
    command = "dd if=/dev/zero of=/dev/shm/used bs=1M count=40; exec sleep 100000"
    large = sized("100m", "100Mi")
    pod = simple_pod("uses", command, nodeName="node-1", container={"resources": large})
    node.api.create_pod(pod)
    running = node.phase("uses", "Running")
    wait_until(lambda: "41943040" in execute(node, running, "stat -c %s /dev/shm/used"), "the memory is used")

    resize(node, "uses", sized("100m", "20Mi"))

    failed = node.until(
        "uses", lambda pod: conditions(pod).get("PodResizeInProgress", {}).get("reason") == "Error", "the resize fails"
    )
    message = conditions(failed)["PodResizeInProgress"]["message"]
    assert message.startswith("cannot decrease memory limits: ")
    assert cgroup(node, failed)[0] == 100 * MI
    node.remove("uses")


def test_pod_level_resources_limit_the_pod_and_are_resized(later: Node) -> None:
    pod = simple_pod("shared", "exec sleep 100000", nodeName="node-1", resources=sized("200m", "128Mi"))
    later.api.create_pod(pod)
    before = later.phase("shared", "Running")
    assert before["status"]["qosClass"] == "Guaranteed"
    assert cgroup(later, before) == (128 * MI, 20_000)
    larger = sized("300m", "192Mi")

    path = "/api/v1/namespaces/default/pods/shared/resize"
    merge = "application/merge-patch+json"
    accepted = later.api.request("PATCH", path, {"spec": {"resources": larger}}, merge)

    assert accepted["spec"]["resources"] == larger
    after = later.until(
        "shared", lambda pod: pod["status"].get("resources") == larger and not conditions(pod), "the resize is complete"
    )
    assert cgroup(later, after) == (192 * MI, 30_000)
    assert after["status"]["allocatedResources"] == larger["requests"]
    assert main_status(after)["containerID"] == main_status(before)["containerID"]
    later.remove("shared")
