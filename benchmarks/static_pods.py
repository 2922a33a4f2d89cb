"""Fifty pods of the manifest folder, without an API server: start, rest, stop."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.figures import Figure, percentile
from benchmarks.node import LIMIT_SECONDS, PODS, SETTLE_SECONDS, bench_pod, idle_percent, names, started_node

LOOK_SECONDS = 0.1

FIGURES = (
    Figure("all_running", f"{PODS} static pods: all running", "s", "3.2 to 4.1", at_most=4.1, matches=True),
    Figure("p50_running", "half of them running", "s"),
    Figure("start_cpu", "agent CPU until all run", "s", "0.51 to 0.77", at_most=0.77, matches=True),
    Figure("settled_cpu", f"agent CPU until {SETTLE_SECONDS:g} s later", "s"),
    Figure("idle_empty", "agent at rest without pods", "% of a core", "0.4", at_most=0.4),
    Figure("idle", f"agent at rest with {PODS} pods", "% of a core", "1.7 to 2.1", at_most=1.0),
    Figure("rss_empty", "agent memory (RSS) without pods", "MiB", "84"),
    Figure("rss", f"agent memory (RSS) with {PODS} pods", "MiB", "100 to 107", at_most=75),
    Figure("stopped", "all stopped", "s", "3.3", at_most=3.3, matches=True),
    Figure("gone", "all sandboxes gone", "s"),
    Figure("stop_cpu", "agent CPU until all are gone", "s"),
)


def run() -> dict[str, float]:
    with started_node(with_api=False) as node:
        agent, found = node.agent, dict[str, float]()
        time.sleep(SETTLE_SECONDS)
        found |= {"rss_empty": agent.rss_mib(), "idle_empty": idle_percent(agent)}

        cpu, begun = agent.cpu_seconds(), time.monotonic()
        files = [agent.write_pod(bench_pod(name)) for name in names()]
        seen: dict[str, float] = {}

        def all_run() -> bool:
            for name in node.pods.running():
                seen.setdefault(name, time.monotonic() - begun)
            return len(seen) == PODS

        found["all_running"] = _seconds_until(all_run, begun, "all static pods run")
        found["start_cpu"] = agent.cpu_seconds() - cpu
        found["p50_running"] = percentile(list(seen.values()), 0.5)
        time.sleep(SETTLE_SECONDS)
        found["settled_cpu"] = agent.cpu_seconds() - cpu

        found |= {"idle": idle_percent(agent), "rss": agent.rss_mib()}

        cpu, begun = agent.cpu_seconds(), time.monotonic()
        for file in files:
            file.unlink()
        found["stopped"] = _seconds_until(lambda: not node.pods.running(), begun, "all static pods stopped")
        found["gone"] = _seconds_until(lambda: not node.pods.present(), begun, "all static pods gone")
        found["stop_cpu"] = agent.cpu_seconds() - cpu
        return found


def _seconds_until(condition: Callable[[], bool], begun: float, what: str) -> float:
    while not condition():
        if time.monotonic() - begun > LIMIT_SECONDS:
            raise RuntimeError(f"not within {LIMIT_SECONDS:g} s: {what}")
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - begun
