"""Single pods created through the API server, one after another: the latency for one user."""

from __future__ import annotations

import statistics
import time

from benchmarks.api import Client, PodWatch
from benchmarks.figures import Figure
from benchmarks.node import bench_pod, started_node

PODS = 20
POD_SECONDS = 60.0

FIGURES = (
    Figure("running", "creation until Running, median", "s", "0.23 to 0.86", at_most=0.15),
    Figure("running_max", "creation until Running, maximum", "s"),
    Figure("removed", "deletion until removed, median, including a grace period of 1 s", "s", "3.0", at_most=3.0),
    Figure("removed_max", "deletion until removed, maximum", "s"),
)


def run() -> dict[str, float]:
    running, removed = [], []
    with started_node(with_api=True) as node, PodWatch(node.server) as watch, Client(node.server) as client:
        for number in range(PODS):
            name = f"bench-one-{number:02d}"
            started = time.monotonic()
            client.create_pod(bench_pod(name, nodeName=node.agent.node))
            watch.wait_running([name], POD_SECONDS)
            running.append(watch.running_at[name] - started)

            started = time.monotonic()
            client.delete_pod(name)
            watch.wait_deleted([name], POD_SECONDS)
            removed.append(watch.deleted_at[name] - started)
    return {
        "running": statistics.median(running),
        "running_max": max(running),
        "removed": statistics.median(removed),
        "removed_max": max(removed),
    }
