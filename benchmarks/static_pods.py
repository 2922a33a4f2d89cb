"""Fifty static pods without an API server: start, idle, stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import yaml

from benchmarks.figures import Figure, percentile
from benchmarks.node import LIMIT_SECONDS, PODS, SETTLE_SECONDS, bench_pod, idle_percent, names, started_node

POLL_SECONDS = 0.1
START_SECONDS = 15.0
"""Time until the agent has also released the memory that only its start used."""

FIGURES = (
    Figure("all_running", f"{PODS} static pods: all running", "s", "3.2 to 4.1", at_most=4.1, matches=True),
    Figure("p50_running", "half of them running", "s"),
    Figure("start_cpu", "agent CPU until all are running", "s", "0.51 to 0.77", at_most=0.77, matches=True),
    Figure("settled_cpu", f"agent CPU until {SETTLE_SECONDS:g} s later", "s"),
    Figure("idle_empty", "idle agent without pods", "% of a core", "0.4", at_most=0.15),
    Figure("idle", f"idle agent with {PODS} pods", "% of a core", "1.7 to 2.1", at_most=0.2),
    Figure("rss_empty", "agent memory (RSS) without pods", "MiB", "84", at_most=58),
    Figure("rss", f"agent memory (RSS) with {PODS} pods", "MiB", "100 to 107", at_most=60),
    Figure("stopped", "all stopped", "s", "3.3", at_most=3.3, matches=True),
    Figure("removed", "all sandboxes removed", "s"),
    Figure("stop_cpu", "agent CPU until all are removed", "s"),
)


def run() -> dict[str, float]:
    with started_node(with_api=False) as node:
        agent, result = node.agent, dict[str, float]()
        time.sleep(START_SECONDS)
        result |= {"idle_empty": idle_percent(agent), "rss_empty": agent.rss_mib()}

        manifests = _manifests(node.directory)
        cpu, started, start_time = agent.cpu_seconds(), time.monotonic(), time.time()
        files = [manifest.rename(agent.manifests / manifest.name) for manifest in manifests]
        _seconds_until(lambda: len(node.pods.running()) == PODS, started, "all static pods are running")
        result["start_cpu"] = agent.cpu_seconds() - cpu
        waits = [start - start_time for start in node.pods.start_times()]
        result |= {"all_running": max(waits), "p50_running": percentile(waits, 0.5)}
        time.sleep(SETTLE_SECONDS)
        result["settled_cpu"] = agent.cpu_seconds() - cpu

        result |= {"idle": idle_percent(agent), "rss": agent.rss_mib()}

        cpu, started = agent.cpu_seconds(), time.monotonic()
        for file in files:
            file.unlink()
        result["stopped"] = _seconds_until(lambda: not node.pods.running(), started, "all static pods stopped")
        result["removed"] = _seconds_until(lambda: not node.pods.present(), started, "all sandboxes removed")
        result["stop_cpu"] = agent.cpu_seconds() - cpu
        return result


def _manifests(directory: Path) -> list[Path]:
    """Write the manifests outside of the agent's directory: their creation is not a part of the measured time."""
    prepared = directory / "prepared"
    prepared.mkdir()
    files = [prepared / f"{name}.yaml" for name in names()]
    for file in files:
        file.write_text(yaml.safe_dump(bench_pod(file.stem)))
    return files


def _seconds_until(condition: Callable[[], bool], started: float, description: str) -> float:
    while not condition():
        if time.monotonic() - started > LIMIT_SECONDS:
            raise RuntimeError(f"timed out after {LIMIT_SECONDS:g} s: {description}")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - started
