"""Tests for the metrics of sandbox and container starts."""

from __future__ import annotations

from nodeagent.errors import RuntimeFailure
from nodeagent.testing import make_pod
from nodeagent_plugins.pod_sync import metrics


def counts():
    return {
        "pods": metrics.STARTED_PODS.value(),
        "failed pods": metrics.FAILED_PODS.value(),
        "sandboxes": metrics.STARTED_CONTAINERS.value("pod_sandbox"),
        "failed sandboxes": metrics.FAILED_SANDBOXES.value(""),
        "timed sandboxes": metrics.SANDBOX_DURATIONS.count(""),
        "containers": metrics.STARTED_CONTAINERS.value("container"),
        "failed containers": metrics.FAILED_CONTAINERS.value("container", "RunContainerError"),
    }


def grown(before):
    return {name: count - before[name] for name, count in counts().items() if count != before[name]}


async def test_started_pod_is_counted(bench):
    before = counts()

    await bench.sync(make_pod("web"))

    assert grown(before) == {"pods": 1, "sandboxes": 1, "timed sandboxes": 1, "containers": 1}


async def test_failed_sandbox_is_counted(bench):
    before = counts()
    bench.runtime.fail("run_sandbox", RuntimeFailure("no"))

    await bench.sync(make_pod("web"))

    assert grown(before) == {"pods": 1, "sandboxes": 1, "failed pods": 1, "failed sandboxes": 1}


async def test_failed_container_is_counted(bench):
    before = counts()
    bench.runtime.fail("start_container", RuntimeFailure("no"))

    outcome = await bench.sync(make_pod("web"))

    assert outcome.error is not None
    assert grown(before)["failed containers"] == 1
