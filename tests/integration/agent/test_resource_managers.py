"""Containers are pinned to CPUs and memory of this machine, and stay there over a restart of the agent."""

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


def asking(name: str, **amounts: str) -> dict[str, Any]:
    return simple_pod(name, WATCH, nodeName="node-1", container={"resources": {"limits": amounts}})


def allowed(node: Node, pod: Any, what: str = "Cpus") -> frozenset[int]:
    """Return the CPUs or memory nodes that the container was allowed to use when it last looked."""
    lines = [line for line in node.log(pod).splitlines() if line.startswith(f"{what}_allowed_list:")]
    return parse_cpu_list(lines[-1].split()[1]) if lines else frozenset()


@pytest.mark.row("config.cpuManagerPolicy", "config.cpuManagerReconcilePeriod", "config.memoryManagerPolicy")
def test_a_guaranteed_container_has_a_cpu_for_itself_and_others_the_rest(node: Node) -> None:
    node.api.create_pod(asking("slow"))
    slow = node.phase("slow", "Running")
    wait_until(lambda: allowed(node, slow) == CPUS, "the only pod may run everywhere")

    node.api.create_pod(asking("fast", cpu="1", memory="64Mi"))
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


def test_a_restarted_agent_keeps_to_it_and_cpus_come_back(node: Node) -> None:
    fast, slow = node.api.pod("fast"), node.api.pod("slow")
    own = allowed(node, fast)
    node.agent.stop()
    node.agent.start()

    node.api.create_pod(asking("third"))
    third = node.phase("third", "Running")
    wait_until(lambda: allowed(node, third) == CPUS - own, "a new pod keeps off that CPU")
    assert (allowed(node, fast), allowed(node, slow)) == (own, CPUS - own)

    node.remove("fast")
    wait_until(lambda: allowed(node, slow) == allowed(node, third) == CPUS, "the CPU is for all again")


@pytest.mark.row("config.topologyManagerPolicy")
def test_what_the_node_cannot_pin_is_refused(node: Node) -> None:
    node.api.create_pod(asking("greedy", cpu=str(len(CPUS)), memory="64Mi"))
    greedy = node.phase("greedy", "Failed")
    assert greedy["status"]["reason"] == "TopologyAffinityError"
    assert greedy["status"]["message"] == "Pod was rejected: Resources cannot be allocated with Topology locality"
    node.remove("slow", "third", "greedy")


def test_the_policy_is_not_changed_over_what_is_pinned(node: Node) -> None:
    node.agent.stop()
    node.agent.begin(cpuManagerPolicy="none")
    wait_until(lambda: not node.agent.alive(), "the agent ended")
    assert "differs from state checkpoint policy" in node.agent.tail()
    (node.agent.root / "cpu_manager_state").unlink()
    node.agent.start()
