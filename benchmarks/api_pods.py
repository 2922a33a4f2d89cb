"""Fifty pods created through the API server and bound to the node: start, idle, stop, as observed by a watch."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.api import Client, PodWatch
from benchmarks.figures import Figure, percentile
from benchmarks.node import LIMIT_SECONDS, PODS, SETTLE_SECONDS, Node, bench_pod, idle_percent, names, started_node

FIGURES = (
    Figure("all_running", f"{PODS} API pods: all Running", "s", "5.1", at_most=5.1, matches=True),
    Figure("p50_running", "creation until Running, median", "s", "3.7", at_most=3.7, matches=True),
    Figure("p99_running", "creation until Running, p99", "s"),
    Figure("start_cpu", "agent CPU until all are Running", "s", "0.83", at_most=0.83, matches=True),
    Figure("server_cpu", "API server CPU until all are Running", "s"),
    Figure("idle", f"idle agent with {PODS} pods", "% of a core", "1.7 to 2.1", at_most=1.0),
    Figure("server_idle", f"idle API server with {PODS} pods", "% of a core"),
    Figure("rss", f"agent memory (RSS) with {PODS} pods", "MiB", "100 to 107", at_most=80),
    Figure("server_rss", "API server memory (RSS)", "MiB", "243, and etcd 43"),
    Figure("removed", "all deleted", "s", "6.0", at_most=6.0, matches=True),
    Figure("stop_cpu", "agent CPU until all are deleted", "s", "0.65", at_most=0.65, matches=True),
)


def run() -> dict[str, float]:
    with started_node(with_api=True) as node, PodWatch(node.server) as watch, Client(node.server) as client:
        agent, server, pods = node.agent, node.server, names()
        time.sleep(SETTLE_SECONDS)
        result = start_pods(node, watch, client, [bench_pod(name, nodeName=agent.node) for name in pods])
        time.sleep(SETTLE_SECONDS)

        server_cpu, idle_since = server.cpu_seconds(), time.monotonic()
        result["idle"] = idle_percent(agent)
        result["server_idle"] = 100 * (server.cpu_seconds() - server_cpu) / (time.monotonic() - idle_since)
        result |= {"rss": agent.rss_mib(), "server_rss": server.rss_mib()}

        cpu, started = agent.cpu_seconds(), time.monotonic()
        for name in pods:
            client.delete_pod(name)
        watch.wait_deleted(pods, LIMIT_SECONDS)
        result["removed"] = max(watch.deleted_at.values()) - started
        result["stop_cpu"] = agent.cpu_seconds() - cpu
        return result


def start_pods(node: Node, watch: PodWatch, client: Client, pods: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Create *pods* and return the figures of their start."""
    cpu, server_cpu, started = node.agent.cpu_seconds(), node.server.cpu_seconds(), time.monotonic()
    created = {}
    for pod in pods:
        client.create_pod(pod)
        created[pod["metadata"]["name"]] = time.monotonic()
    watch.wait_running(created, LIMIT_SECONDS)
    waits = [watch.running_at[name] - at for name, at in created.items()]
    return {
        "all_running": max(watch.running_at.values()) - started,
        "p50_running": percentile(waits, 0.5),
        "p99_running": percentile(waits, 0.99),
        "start_cpu": node.agent.cpu_seconds() - cpu,
        "server_cpu": node.server.cpu_seconds() - server_cpu,
    }
