"""Tests for pinning containers to CPUs and NUMA nodes, also over a restart of the agent."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from nodeagent.base.cpu_list import parse_cpu_list
from tests.integration.agent.conftest import Node
from tests.integration.containerd import Containerd
from tests.integration.programs import NodeAgent, simple_pod, wait_until
from tests.integration.reference import new_api_server

CPUS = frozenset(os.sched_getaffinity(0))
FIRST = min(CPUS)
CONFIG = {
    "cpuManagerPolicy": "static",
    "cpuManagerReconcilePeriod": "1s",
    "reservedSystemCPUs": str(FIRST),
    "memoryManagerPolicy": "Static",
    "systemReserved": {"memory": "100Mi"},
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "200Mi"}}],
    "topologyManagerPolicy": "single-numa-node",
}
WATCH = "while :; do grep _allowed_list /proc/self/status; sleep 0.2; done"


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("pinned")
    api = new_api_server(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    try:
        api.start()
        agent.start(**CONFIG)
        yield Node(containerd, api, agent)
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def requesting(name: str, **amounts: str) -> dict[str, Any]:
    return simple_pod(name, WATCH, nodeName="node-1", container={"resources": {"limits": amounts}})


def allowed(node: Node, pod: Any, what: str = "Cpus") -> frozenset[int]:
    """Return the allowed CPUs or memory nodes that the container last printed."""
    lines = [line for line in node.log(pod).splitlines() if line.startswith(f"{what}_allowed_list:")]
    return parse_cpu_list(lines[-1].split()[1]) if lines else frozenset()


@pytest.mark.row("config.cpuManagerPolicy", "config.cpuManagerReconcilePeriod", "config.memoryManagerPolicy")
def test_guaranteed_container_has_exclusive_cpus(node: Node) -> None:
    node.api.create_pod(requesting("slow"))
    slow = node.phase("slow", "Running")
    wait_until(lambda: allowed(node, slow) == CPUS, "the only pod may run everywhere")

    node.api.create_pod(requesting("fast", cpu="1", memory="64Mi"))
    fast = node.phase("fast", "Running")
    wait_until(lambda: len(allowed(node, fast)) == 1, "the guaranteed pod has one CPU")
    own = allowed(node, fast)
    assert own <= CPUS - {FIRST}
    assert allowed(node, fast, "Mems") == {0}
    wait_until(lambda: allowed(node, slow) == CPUS - own, "the other pod left that CPU")

    for file, held in (("cpu_manager_state", str(min(own))), ("memory_manager_state", None)):
        entries = json.loads((node.agent.root / file).read_text())["entries"]
        assert set(entries) == {fast["metadata"]["uid"]}
        assert held is None or entries[fast["metadata"]["uid"]] == {"main": held}


def test_restarted_agent_keeps_assignments_and_releases_cpus(node: Node) -> None:
    fast, slow = node.api.pod("fast"), node.api.pod("slow")
    own = allowed(node, fast)
    node.agent.stop()
    node.agent.start()

    node.api.create_pod(requesting("third"))
    third = node.phase("third", "Running")
    wait_until(lambda: allowed(node, third) == CPUS - own, "a new pod keeps off that CPU")
    assert (allowed(node, fast), allowed(node, slow)) == (own, CPUS - own)

    node.remove("fast")
    wait_until(lambda: allowed(node, slow) == allowed(node, third) == CPUS, "the CPU is for all again")


@pytest.mark.row("config.topologyManagerPolicy")
def test_pod_without_available_cpus_is_rejected(node: Node) -> None:
    node.api.create_pod(requesting("greedy", cpu=str(len(CPUS)), memory="64Mi"))
    greedy = node.phase("greedy", "Failed")
    assert greedy["status"]["reason"] == "TopologyAffinityError"
    assert greedy["status"]["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
    node.remove("slow", "third", "greedy")


def test_policy_change_with_existing_assignments_is_rejected(node: Node) -> None:
    node.agent.stop()
    node.agent.begin(cpuManagerPolicy="none")
    wait_until(lambda: not node.agent.alive(), "the agent ended")
    assert "differs from state checkpoint policy" in node.agent.tail()
    (node.agent.root / "cpu_manager_state").unlink()
    node.agent.start()
