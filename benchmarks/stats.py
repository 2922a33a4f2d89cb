"""Latency and CPU of the stats summary and the metrics endpoints with fifty pods."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable

from benchmarks.figures import Figure
from benchmarks.node import LIMIT_SECONDS, PODS, SETTLE_SECONDS, Node, bench_pod, names, started_node
from tests.integration.programs import free_port, wait_until

REQUESTS = 30
PAGES = ("metrics", "metrics/cadvisor", "metrics/resource", "metrics/probes", "metrics/slis")

FIGURES = (
    Figure("read_cpu", f"agent CPU to measure {PODS} pods", "ms", at_most=20),
    Figure("summary_cpu", "agent CPU for a summary, including the measurement", "ms"),
    Figure("summary", f"summary of {PODS} pods, not cached", "ms"),
    Figure("summary_cached", f"summary of {PODS} pods, cached", "ms"),
    *(Figure(page, f"/{page} of {PODS} pods", "ms", at_most=100) for page in PAGES),
    *(Figure(f"{page}_cpu", f"agent CPU for /{page}", "ms") for page in PAGES),
    Figure("rss", "agent memory (RSS) afterwards", "MiB", at_most=80),
)


def run() -> dict[str, float]:
    port = free_port()
    with started_node(with_api=False, readOnlyPort=port) as node:
        for name in names():
            node.agent.write_pod(bench_pod(name))
        wait_until(lambda: len(node.pods.running()) == PODS, "all static pods are running", LIMIT_SECONDS)
        time.sleep(SETTLE_SECONDS)
        cached, cached_cpu = _cost(node, lambda: _pods_in_summary(port))
        result = {"summary_cached": cached}
        node.agent.stop()
        node.agent.plugins = {"stats": {"max_age_seconds": 0}}
        node.agent.start()
        wait_until(lambda: _pods_in_summary(port) == PODS, "the agent reports its pods")
        time.sleep(SETTLE_SECONDS)
        result["summary"], result["summary_cpu"] = _cost(node, lambda: _pods_in_summary(port))
        result["read_cpu"] = result["summary_cpu"] - cached_cpu
        for page in PAGES:
            result[page], result[f"{page}_cpu"] = _cost(node, lambda page=page: _get(port, f"/{page}"))  # type: ignore[misc]
        return result | {"rss": node.agent.rss_mib()}


def _cost(node: Node, request: Callable[[], object]) -> tuple[float, float]:
    """Return the duration of a request and the agent's CPU time for it, in milliseconds."""
    request()
    cpu, started = node.agent.cpu_seconds(), time.monotonic()
    for _ in range(REQUESTS):
        request()
    elapsed = time.monotonic() - started
    return 1000 * elapsed / REQUESTS, 1000 * (node.agent.cpu_seconds() - cpu) / REQUESTS


def _pods_in_summary(port: int) -> int:
    try:
        return len(json.loads(_get(port, "/stats/summary"))["pods"])
    except OSError:
        return 0


def _get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(f"GET {path}: status {response.status}: {body[:200]!r}")
        return body
    finally:
        connection.close()
