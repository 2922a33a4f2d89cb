"""Tests for pod startup metrics."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from nodeagent.model.pod import ContainerStatus, PodStatus
from nodeagent.podworker.metrics import (
    ADMISSION_REJECTIONS,
    CONTAINERS,
    FIRST_NETWORK_START,
    SLI_STARTS,
    STARTS,
    TOTAL_STARTS,
    WORKER_STARTS,
    StartTimer,
    count_rejection,
)
from nodeagent.testing import make_pod

RUNNING = PodStatus(phase="Running", container_statuses=[ContainerStatus(name="main", started=True)])
STARTING = PodStatus(phase="Running", container_statuses=[ContainerStatus(name="main", started=False)])


def counts():
    return [histogram.count() for histogram in (WORKER_STARTS, CONTAINERS, STARTS, TOTAL_STARTS, SLI_STARTS)]


@pytest.fixture
def pod(clock):
    pod = make_pod("web")
    created = clock.wall() - timedelta(seconds=2)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, creation_timestamp=created))


@pytest.fixture
def before():
    return counts()


def grown(before):
    return [after - count for after, count in zip(counts(), before, strict=True)]


def total(histogram):
    return next(value for suffix, _, value, _ in histogram.family().rows if suffix == "_sum")


async def test_startup_is_measured_until_all_containers_started(clock, pod, before):
    timer = StartTimer(clock, static=False)
    totals = [total(histogram) for histogram in (STARTS, TOTAL_STARTS, SLI_STARTS)]

    assert timer.begin(pod, runs=False)
    timer.waited_for_images(3)
    await clock.advance(5)
    timer.observe(pod, STARTING)
    assert grown(before) == [1, 1, 0, 0, 0]
    await clock.advance(1)
    for _ in range(2):
        timer.observe(pod, RUNNING)

    assert grown(before) == [1, 1, 1, 1, 1]
    lengths = [total(h) - was for h, was in zip((STARTS, TOTAL_STARTS, SLI_STARTS), totals, strict=True)]
    assert lengths == pytest.approx([6, 8, 5])
    assert not timer.begin(pod, runs=False)


async def test_pod_running_before_the_agent_is_not_measured(clock, pod, before):
    timer = StartTimer(clock, static=False)

    assert timer.begin(pod, runs=True)
    timer.observe(pod, RUNNING)

    assert grown(before) == [0, 0, 0, 0, 0]


async def test_static_pods_have_no_total_start_duration(clock, pod, before):
    timer = StartTimer(clock, static=True)

    timer.begin(pod, runs=False)
    timer.observe(pod, RUNNING)

    assert grown(before) == [1, 1, 1, 0, 0]


async def test_first_pod_with_network_sets_its_startup_duration(clock, pod):
    FIRST_NETWORK_START.set(0)
    on_host = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, host_network=True))
    for each, expected in ((on_host, 0), (pod, 2), (pod, 2)):
        timer = StartTimer(clock, static=False)
        timer.begin(each, runs=False)
        timer.observe(each, RUNNING)
        assert FIRST_NETWORK_START.value() == pytest.approx(expected)
        if expected:
            await clock.advance(1)


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("OutOfcpu", "OutOfcpu"),
        ("NodeShutdown", "NodeShutdown"),
        ("OutOfexample.com/device", "OutOfExtendedResources"),
        ("FromAPlugin", "Other"),
    ],
)
def test_rejections_are_counted_by_known_reasons(reason, label):
    before = ADMISSION_REJECTIONS.value(label)
    count_rejection(reason)
    assert ADMISSION_REJECTIONS.value(label) == before + 1
