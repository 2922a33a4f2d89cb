"""Tests for the node startup metrics."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.base.metrics import Gauge
from nodeagent.node import startup
from nodeagent.node.startup import NodeStartup, since_boot
from nodeagent.testing import FakeApi, FakeClock

GAUGES = (
    startup.BEFORE_AGENT,
    startup.BEFORE_REGISTRATION,
    startup.REGISTRATION,
    startup.AFTER_REGISTRATION,
    startup.TOTAL,
)


@pytest.fixture(autouse=True)
def nothing_measured() -> None:
    for gauge in GAUGES:
        gauge.set(0)


def shown(*gauges: Gauge) -> list[float]:
    return [gauge.value() for gauge in gauges or GAUGES]


async def test_each_startup_phase_is_measured_once(clock: FakeClock) -> None:
    start = NodeStartup(clock, lambda: (20.0, 21.0))

    await clock.advance(2)
    start.attempted()
    await clock.advance(3)
    start.attempted()
    start.registered()
    assert shown() == pytest.approx([20, 3, 3, 0, 0])
    await clock.advance(4)
    start.reported_ready()
    await clock.advance(5)
    start.registered()
    start.reported_ready()

    assert shown() == pytest.approx([20, 3, 3, 4, 30])


async def test_existing_node_has_no_startup_metrics(clock: FakeClock) -> None:
    start = NodeStartup(clock, lambda: (20.0, 21.0))

    start.attempted()
    await clock.advance(3)
    start.reported_ready()

    assert shown() == [0, 0, 0, 0, 0]


def test_process_start_is_between_boot_and_now() -> None:
    started, now = since_boot()

    assert 0 < started <= now


async def test_agent_measures_its_startup(make_node: Any, api: FakeApi, clock: FakeClock) -> None:
    async with make_node().running():
        await clock.advance(5)

    assert 0 < startup.BEFORE_AGENT.value() <= startup.TOTAL.value()
    for gauge in GAUGES:
        gauge.set(0)

    async with make_node().running():
        await clock.advance(5)

    assert shown() == [0, 0, 0, 0, 0]
