"""Single pods through the API server, one after another: what one user waits for."""

from __future__ import annotations

import statistics
import time

from benchmarks.api import Client, PodWatch
from benchmarks.figures import Figure
from benchmarks.node import bench_pod, started_node

PODS = 20
POD_SECONDS = 60.0

FIGURES = (
    Figure("running", "one pod of the API: Running, median", "s", "0.23 to 0.86", at_most=0.5),
    Figure("running_max", "slowest Running", "s"),
    Figure("gone", "one pod gone, median; a grace period of 1 s is in it", "s", "3.0", at_most=3.0),
    Figure("gone_max", "slowest gone", "s"),
)


def run() -> dict[str, float]:
    running, gone = [], []
    with started_node(with_api=True) as node, PodWatch(node.server) as watch, Client(node.server) as client:
        for number in range(PODS):
            name = f"bench-one-{number:02d}"
            begun = time.monotonic()
            client.create_pod(bench_pod(name, nodeName=node.agent.node))
            watch.wait_running([name], POD_SECONDS)
            running.append(watch.running_at[name] - begun)

            begun = time.monotonic()
            client.delete_pod(name)
            watch.wait_gone([name], POD_SECONDS)
            gone.append(watch.gone_at[name] - begun)
    return {
        "running": statistics.median(running),
        "running_max": max(running),
        "gone": statistics.median(gone),
        "gone_max": max(gone),
    }
