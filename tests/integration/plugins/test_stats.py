"""Tests for resource usage statistics of a node with pods on a real runtime."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.containerd import Containerd
from tests.integration.programs import NodeAgent, free_port, simple_pod, wait_until

WRITTEN = 3_000_000
SCRIPT = f"""
dd if=/dev/zero of=/data/file bs=1000 count={WRITTEN // 1000} 2>/dev/null
dd if=/dev/zero of=/layer bs=1000 count={WRITTEN // 1000} 2>/dev/null
while true; do i=$((i+1)); [ $((i % 200000)) = 0 ] && echo working; done
"""

pytestmark = pytest.mark.integration


@dataclass
class Node:
    agent: NodeAgent
    port: int

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as response:
            return str(response.read().decode())

    def summary(self) -> Any:
        return json.loads(self.get("/stats/summary"))

    def pod(self, name: str = "busy-node-1") -> Any:
        return next((pod for pod in self.summary()["pods"] if pod["podRef"]["name"] == name), None)

    def samples(self, path: str) -> list[Any]:
        return [s for family in text_string_to_metric_families(self.get(path)) for s in family.samples]


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("stats")
    agent, port = NodeAgent(directory, containerd.endpoint), free_port()
    agent.plugins = {"stats": {"max_age_seconds": 0}}
    limits = {"limits": {"memory": "64Mi", "cpu": "300m"}}
    mounts = [{"name": "data", "mountPath": "/data"}]
    pod = simple_pod(
        "busy",
        SCRIPT,
        container={"resources": limits, "volumeMounts": mounts},
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    file = agent.write_pod(pod)
    found = Node(agent, port)
    try:
        agent.start(readOnlyPort=port, volumeStatsAggPeriod="1s")
        wait_until(
            lambda: (seen := found.pod()) and seen["cpu"].get("usageCoreNanoSeconds", 0) > 0, "the pod is measured"
        )
        yield found
    finally:
        file.unlink()
        try:
            wait_until(lambda: not found.summary()["pods"], "the pod is gone", 40)
        finally:
            agent.stop()


def test_summary_has_cpu_disk_and_log_usage_of_a_pod(node: Node) -> None:
    first = node.pod()
    time.sleep(1)
    wait_until(lambda: node.pod().get("volume"), "its volume is measured")
    pod = wait_until(
        lambda: (
            (seen := node.pod())["cpu"].get("usageNanoCores", 0) > 50_000_000
            and seen["containers"][0]["rootfs"].get("usedBytes", 0) >= WRITTEN
            and seen["volume"][0].get("usedBytes", 0) >= WRITTEN
            and seen["containers"][0]["logs"].get("usedBytes", 0) > 0
            and seen
        ),
        "everything the pod does is measured",
    )

    (container,), (volume,) = pod["containers"], pod["volume"]
    assert pod["cpu"]["usageCoreNanoSeconds"] > first["cpu"]["usageCoreNanoSeconds"]
    assert pod["cpu"]["usageNanoCores"] < 700_000_000  # Limited to 300m.
    assert pod["cpu"]["usageCoreNanoSeconds"] >= container["cpu"]["usageCoreNanoSeconds"]
    memory = container["memory"]
    assert 0 < memory["workingSetBytes"] <= memory["usageBytes"] < 64 * 2**20
    assert memory["availableBytes"] == 64 * 2**20 - memory["workingSetBytes"]
    assert (volume["name"], volume["usedBytes"] < WRITTEN + 1_000_000) == ("data", True)
    parts = [container["rootfs"]["usedBytes"], container["logs"]["usedBytes"], volume["usedBytes"]]
    assert pod["ephemeral-storage"]["usedBytes"] >= sum(parts)
    assert pod["process_stats"]["process_count"] >= 2
    assert pod["network"]["name"] == "eth0"


def test_usage_of_the_node_includes_that_of_its_pods(node: Node) -> None:
    summary = node.summary()
    shown = summary["node"]

    assert shown["nodeName"] == "node-1"
    assert shown["memory"]["workingSetBytes"] > summary["pods"][0]["memory"]["workingSetBytes"]
    assert 0 < shown["rlimit"]["curproc"] < shown["rlimit"]["maxpid"]
    assert shown["fs"]["capacityBytes"] > 0
    assert shown["runtime"]["imageFs"]["usedBytes"] > 0
    assert {"pods"} <= {container["name"] for container in shown["systemContainers"]}


def test_container_metrics_have_limits_and_throttling(node: Node) -> None:
    found = {
        sample.name: sample.value
        for sample in node.samples("/metrics/cadvisor")
        if (sample.labels.get("pod"), sample.labels.get("container")) == ("busy-node-1", "main")
    }

    assert found["container_cpu_usage_seconds_total"] > 0
    assert found["container_spec_memory_limit_bytes"] == 64 * 2**20
    assert found["container_spec_cpu_quota"] / found["container_spec_cpu_period"] == pytest.approx(0.3)
    assert found["container_cpu_cfs_throttled_periods_total"] > 0
    assert found["container_processes"] >= 1
    assert found["container_fs_usage_bytes"] > 0


def test_agent_metrics_count_its_operations(node: Node) -> None:
    found = {(s.name, *s.labels.values()): s.value for s in node.samples("/metrics")}

    assert found["kubelet_runtime_operations_total", "run_podsandbox"] == 1
    assert found["kubelet_started_containers_total", "container"] == 1
    assert found["kubelet_pod_start_duration_seconds_count",] == 1
    assert found["kubelet_pleg_relist_duration_seconds_count",] > 1
    assert found["kubelet_pod_worker_duration_seconds_count", "create"] == 1
    assert found["kubelet_running_pods",] == 1
    assert ("kubelet_container_log_filesystem_used_bytes" in {name for name, *_ in found}) is True


def test_resource_metrics_agree_with_the_summary(node: Node) -> None:
    found = {(s.name, *s.labels.values()): s for s in node.samples("/metrics/resource")}

    used = found["container_cpu_usage_seconds_total", "main", "busy-node-1", "default"]
    assert used.value > 0
    assert used.timestamp == pytest.approx(time.time(), abs=60)
    assert found["resource_scrape_error",].value == 0
