"""What it costs to say how much fifty pods use: the summary, and each page of metrics."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable

from benchmarks.figures import Figure
from benchmarks.node import LIMIT_SECONDS, PODS, SETTLE_SECONDS, Node, bench_pod, names, started_node
from tests.integration.programs import free_port, wait_until

ROUNDS = 30
PAGES = ("metrics", "metrics/cadvisor", "metrics/resource", "metrics/probes", "metrics/slis")

FIGURES = (
    Figure("read_cpu", f"agent CPU to measure {PODS} pods", "ms", at_most=20),
    Figure("summary_cpu", "the same and to tell their summary", "ms"),
    Figure("summary", f"summary of {PODS} pods, measured for it", "ms"),
    Figure("summary_kept", f"summary of {PODS} pods, measured a moment ago", "ms"),
    *(Figure(page, f"/{page} of {PODS} pods", "ms", at_most=100) for page in PAGES),
    *(Figure(f"{page}_cpu", f"agent CPU for /{page}", "ms") for page in PAGES),
    Figure("rss", "agent memory (RSS) afterwards", "MiB", at_most=80),
)


def run() -> dict[str, float]:
    port = free_port()
    with started_node(with_api=False, readOnlyPort=port) as node:
        for name in names():
            node.agent.write_pod(bench_pod(name))
        wait_until(lambda: len(node.pods.running()) == PODS, "all static pods run", LIMIT_SECONDS)
        time.sleep(SETTLE_SECONDS)
        kept, kept_cpu = _cost(node, lambda: _pods_in_summary(port))
        found = {"summary_kept": kept}
        node.agent.stop()
        node.agent.plugins = {"stats": {"max_age_seconds": 0}}
        node.agent.start()
        wait_until(lambda: _pods_in_summary(port) == PODS, "the agent knows its pods again")
        time.sleep(SETTLE_SECONDS)
        found["summary"], found["summary_cpu"] = _cost(node, lambda: _pods_in_summary(port))
        found["read_cpu"] = found["summary_cpu"] - kept_cpu
        for page in PAGES:
            found[page], found[f"{page}_cpu"] = _cost(node, lambda page=page: _get(port, f"/{page}"))  # type: ignore[misc]
        return found | {"rss": node.agent.rss_mib()}


def _cost(node: Node, ask: Callable[[], object]) -> tuple[float, float]:
    """Return the milliseconds that an answer takes, and the agent's CPU for it."""
    ask()
    cpu, begun = node.agent.cpu_seconds(), time.monotonic()
    for _ in range(ROUNDS):
        ask()
    length = time.monotonic() - begun
    return 1000 * length / ROUNDS, 1000 * (node.agent.cpu_seconds() - cpu) / ROUNDS


def _pods_in_summary(port: int) -> int:
    try:
        return len(json.loads(_get(port, "/stats/summary"))["pods"])
    except OSError:
        return 0


def _get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {body[:200]!r}")
        return body
    finally:
        connection.close()
