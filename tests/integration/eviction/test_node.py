"""Tests for evictions on a real node: only the offending pod is evicted, with events and conditions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeagent_plugins.eviction.memory import NodeMemory
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

# The threshold is relative to the memory available on the host.
pytestmark = pytest.mark.exclusive

MI = 1024 * 1024
EATEN_MI = min(1024, NodeMemory().read().available // MI // 4)
"""Memory of the greedy pod; the threshold is half of it below the memory available at the start of the test."""
HOLD = f"dd if=/dev/zero bs={EATEN_MI}M count=1 2>/dev/null | sleep 1000000"
"""``dd`` fills its buffer and blocks on its output."""


class PressedNode:
    """Node whose memory threshold the greedy pod crosses."""

    def __init__(self, api: ApiServer, agent: NodeAgent) -> None:
        self.api, self.agent = api, agent

    def until(self, name: str, phase: str, seconds: float = 40.0) -> Any:
        """Wait until a pod has a phase, and return it."""

        def there() -> Any:
            pod = self.api.pod(name)
            return pod if pod and pod.get("status", {}).get("phase") == phase else None

        try:
            return wait_until(there, f"pod {name} is {phase}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.api.pod(name)}\n{self.agent.tail()}") from None

    def conditions(self) -> dict[str, Any]:
        node = self.api.get("/api/v1/nodes/node-1")
        status = node.get("status") or {} if node["kind"] == "Node" else {}
        return {c["type"]: c for c in status.get("conditions") or ()}

    def plan(self, *arguments: str) -> Any:
        command = [sys.executable, "-m", "nodeagent", "evict", "plan", "--root-dir", str(self.agent.root), *arguments]
        return json.loads(subprocess.run([*command, "-o", "json"], capture_output=True, check=True, timeout=60).stdout)

    def decisions(self) -> str:
        command = [sys.executable, "-m", "nodeagent", "plugins", "list", "--root-dir", str(self.agent.root)]
        return subprocess.run([*command, "-o", "json"], capture_output=True, check=True, text=True, timeout=60).stdout


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PressedNode]:
    directory = tmp_path_factory.mktemp("eviction")
    api, agent = ApiServer(directory), NodeAgent(directory, containerd.endpoint)
    agent.api = api
    built = PressedNode(api, agent)
    try:
        api.start()
        limit = NodeMemory().read().available - EATEN_MI // 2 * MI
        agent.start(evictionHard={"memory.available": str(limit)}, volumeStatsAggPeriod="1s")
        wait_until(lambda: built.conditions().get("Ready", {}).get("status") == "True", "the node is Ready")
        yield built
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


@pytest.mark.row("config.localStorageCapacityIsolation")
def test_only_pods_over_their_disk_limits_are_evicted(node: PressedNode) -> None:
    volume = {"volumes": [{"name": "cache", "emptyDir": {"sizeLimit": "1Mi"}}]}
    mounted = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    limited = {"resources": {"limits": {"ephemeral-storage": "1Mi"}}}
    fill = "dd if=/dev/zero of={} bs=1M count={} 2>/dev/null; exec sleep 1000000"
    node.api.create_pod(simple_pod("full", fill.format("/cache/f", 5), container=mounted, **volume))
    node.api.create_pod(simple_pod("roomy", fill.format("/cache/f", 0), container=mounted, **volume))
    node.api.create_pod(simple_pod("layer", fill.format("/f", 5), container=limited))

    full, layer = node.until("full", "Failed"), node.until("layer", "Failed")

    assert full["status"]["reason"] == layer["status"]["reason"] == "Evicted"
    assert full["status"]["message"] == 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". '
    assert layer["status"]["message"] == "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
    assert node.until("roomy", "Running")["status"].get("reason") is None
    for name in ("full", "layer", "roomy"):
        node.api.delete_pod(name, grace=0)


@pytest.mark.row("config.evictionHard", "config.evictionPressureTransitionPeriod")
def test_memory_pressure_evicts_the_greedy_pod_and_blocks_best_effort(node: PressedNode, tmp_path: Path) -> None:
    modest = {"resources": {"requests": {"memory": "64Mi"}}}
    node.api.create_pod(simple_pod("modest", container=modest))
    node.until("modest", "Running")

    assert [(pod["name"], pod["verdict"]) for pod in node.plan()["pods"]] == [("modest", "next")]
    greedier = tmp_path / "greedier.yaml"
    config = yaml.safe_load((node.agent.directory / "config.yaml").read_text())
    greedier.write_text(yaml.safe_dump({**config, "evictionHard": {"memory.available": "99%"}}))
    plan = node.plan("--config", str(greedier))
    assert (plan["signal"], plan["pods"][0]["verdict"]) == ("memory.available", "evict")
    assert "within its request of 64Mi" in plan["pods"][0]["why"]

    node.api.create_pod(simple_pod("greedy", HOLD))
    status = node.until("greedy", "Failed")["status"]

    assert status["reason"] == "Evicted"
    assert re.fullmatch(
        r"The node was low on resource: memory\. Threshold quantity: \w+, available: \w+\. "
        r"Container main was using \w+, request is 0, has larger consumption of memory\. ",
        status["message"],
    )
    (target,) = (c for c in status["conditions"] if c["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"], target["message"]) == (
        "True",
        "TerminationByKubelet",
        status["message"],
    )
    assert node.until("modest", "Running")["status"].get("reason") is None
    wait_until(lambda: node.conditions()["MemoryPressure"]["status"] == "True", "the node shows pressure")
    assert node.conditions()["MemoryPressure"]["reason"] == "KubeletHasInsufficientMemory"

    def event() -> Any:
        return next((each for each in node.api.events("greedy") if each["reason"] == "Evicted"), None)

    recorded = wait_until(event, "the event is recorded")
    assert recorded["metadata"]["annotations"]["starved_resource"] == "memory"
    assert recorded["metadata"]["annotations"]["offending_containers"] == "main"
    wait_until(lambda: "default/greedy" in node.decisions(), "the decision is kept")

    # Pods stay pending while the node has the taint of the condition, so these set nodeName.
    requesting = {"resources": {"requests": {"memory": "1Mi"}}}
    node.api.create_pod(simple_pod("late", nodeName="node-1"))
    node.api.create_pod(simple_pod("asking", container=requesting, nodeName="node-1"))
    late = node.until("late", "Failed")["status"]
    assert late["reason"] == "Evicted"
    assert late["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "
    node.until("asking", "Running")
