"""Fifty pods through the API server, bound to the node: start, rest, stop, as a client of the API sees them."""

from __future__ import annotations

import time

from benchmarks.api import Client, PodWatch
from benchmarks.figures import Figure, percentile
from benchmarks.node import LIMIT_SECONDS, PODS, SETTLE_SECONDS, bench_pod, idle_percent, names, started_node

FIGURES = (
    Figure("all_running", f"{PODS} pods of the API: all Running", "s", "5.1", at_most=5.1, matches=True),
    Figure("p50_running", "half of them Running, from its creation", "s", "3.7", at_most=3.7, matches=True),
    Figure("p99_running", "the last of them Running, from its creation", "s"),
    Figure("start_cpu", "agent CPU until all run", "s", "0.83", at_most=0.83, matches=True),
    Figure("server_cpu", "API server CPU until all run", "s"),
    Figure("idle", f"agent at rest with {PODS} pods", "% of a core", "1.7 to 2.1", at_most=1.0),
    Figure("server_idle", f"API server at rest with {PODS} pods", "% of a core"),
    Figure("rss", f"agent memory (RSS) with {PODS} pods", "MiB", "100 to 107", at_most=80),
    Figure("server_rss", "API server memory (RSS)", "MiB", "243 and 43 of its store"),
    Figure("gone", "all gone", "s", "6.0", at_most=6.0, matches=True),
    Figure("stop_cpu", "agent CPU until all are gone", "s", "0.65", at_most=0.65, matches=True),
)


def run() -> dict[str, float]:
    with started_node(with_api=True) as node, PodWatch(node.server) as watch, Client(node.server) as client:
        agent, server, pods = node.agent, node.server, names()
        time.sleep(SETTLE_SECONDS)

        cpu, server_cpu, begun = agent.cpu_seconds(), server.cpu_seconds(), time.monotonic()
        created = {}
        for name in pods:
            client.create_pod(bench_pod(name, nodeName=agent.node))
            created[name] = time.monotonic()
        watch.wait_running(pods, LIMIT_SECONDS)
        waits = [watch.running_at[name] - created[name] for name in pods]
        found = {
            "all_running": max(watch.running_at.values()) - begun,
            "p50_running": percentile(waits, 0.5),
            "p99_running": percentile(waits, 0.99),
            "start_cpu": agent.cpu_seconds() - cpu,
            "server_cpu": server.cpu_seconds() - server_cpu,
        }
        time.sleep(SETTLE_SECONDS)

        server_cpu, rest = server.cpu_seconds(), time.monotonic()
        found["idle"] = idle_percent(agent)
        found["server_idle"] = 100 * (server.cpu_seconds() - server_cpu) / (time.monotonic() - rest)
        found |= {"rss": agent.rss_mib(), "server_rss": server.rss_mib()}

        cpu, begun = agent.cpu_seconds(), time.monotonic()
        for name in pods:
            client.delete_pod(name)
        watch.wait_gone(pods, LIMIT_SECONDS)
        found["gone"] = max(watch.gone_at.values()) - begun
        found["stop_cpu"] = agent.cpu_seconds() - cpu
        return found
