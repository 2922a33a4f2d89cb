"""Pods that cause memory pressure, one after another: time to eviction, and effect on other pods."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.api import Client
from benchmarks.figures import Figure
from benchmarks.node import Node, bench_pod, started_node
from nodeagent_plugins.eviction.memory import NodeMemory
from tests.integration.programs import ApiServer, simple_pod, wait_until

PODS = 20
NEIGHBORS = 5
ALLOCATED_MIB = 1024
SAMPLE_SECONDS = 0.002
POD_SECONDS = 60.0
MIB = 1 << 20

FIGURES = (
    Figure("right", "runs in which only the pod that caused the pressure was evicted", "of 20", at_least=20),
    Figure("decided", "threshold crossed until eviction, median", "s"),
    Figure("decided_max", "threshold crossed until eviction, maximum", "s", "up to 10", at_most=1.0),
    Figure("reported", "threshold crossed until pod Failed in the API, median, including a grace period of 1 s", "s"),
)


def run() -> dict[str, float]:
    limit = NodeMemory().read().available - ALLOCATED_MIB // 2 * MIB
    config: dict[str, Any] = {
        "evictionHard": {"memory.available": str(limit)},
        "evictionPressureTransitionPeriod": "0s",
    }
    decided, reported, right = [], [], 0
    with started_node(with_api=True, **config) as node, Client(node.server) as client:
        neighbors = [f"bench-neighbor-{number}" for number in range(NEIGHBORS)]
        for name in neighbors:
            client.create_pod(bench_pod(name, nodeName=node.agent.node))
        wait_until(lambda: node.pods.running() >= set(neighbors), "the neighbors are running", POD_SECONDS)
        for number in range(PODS):
            with Crossing(limit) as crossing:
                at, failed_at = _cause_pressure(node, client, f"bench-greedy-{number:02d}")
            assert crossing.at is not None, "the memory threshold was never crossed"
            decided.append(at - crossing.at)
            reported.append(failed_at - crossing.at)
            right += node.pods.running() == set(neighbors)
    return {
        "right": right,
        "decided": statistics.median(decided),
        "decided_max": max(decided),
        "reported": statistics.median(reported),
    }


class Crossing:
    """Records when available memory is below *limit* for the first time in the ``with`` block."""

    def __init__(self, limit: int) -> None:
        self._limit, self._files = limit, NodeMemory()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self.at: float | None = None
        """Epoch seconds."""

    def __enter__(self) -> Crossing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            if self._files.read().available < self._limit:
                self.at = time.time()
                return


def _cause_pressure(node: Node, client: Client, name: str) -> tuple[float, float]:
    """Run a pod until it is evicted; return the times of the event and of the phase Failed, in epoch seconds."""
    command = f"dd if=/dev/zero bs={ALLOCATED_MIB}M count=1 2>/dev/null | sleep 1000000"
    client.create_pod(
        simple_pod(name, command, container={"resources": {"requests": {"memory": "1Mi"}}}, nodeName=node.agent.node)
    )
    wait_until(lambda: _phase(node.server, name) == "Failed", f"{name} is evicted", POD_SECONDS, every=0.02)
    failed_at = time.time()
    event = wait_until(
        lambda: next((each for each in node.server.events(name) if each["reason"] == "Evicted"), None),
        f"event Evicted of {name}",
    )
    client.delete_pod(name)
    wait_until(lambda: name not in node.pods.present(), f"{name} is removed", POD_SECONDS)
    return _recorded_at(event), failed_at


def _recorded_at(event: Mapping[str, Any]) -> float:
    """Return the time in the name of an event, which is exact, while its fields have seconds."""
    return int(event["metadata"]["name"].rpartition(".")[2], 16) / 1e9


def _phase(server: ApiServer, name: str) -> str:
    return str((server.pod(name) or {}).get("status", {}).get("phase", ""))
