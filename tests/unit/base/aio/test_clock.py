"""Tests for the clock of the operating system."""

from __future__ import annotations

import time

import pytest
import uvloop

from nodeagent.base.aio import SystemClock


async def shortest_excess(seconds: float, times: int) -> float:
    """Return the time by which the shortest of some sleeps exceeded *seconds*."""
    clock, excess = SystemClock(), list[float]()
    for _ in range(times):
        started = time.monotonic()
        await clock.sleep(seconds)
        excess.append(time.monotonic() - started - seconds)
    return min(excess)


@pytest.mark.parametrize("seconds", [0.0004, 0.0016, 0.0024])
def test_sleep_never_ends_early_with_timers_of_low_resolution(seconds: float) -> None:
    assert uvloop.run(shortest_excess(seconds, 20)) >= 0.0


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_sleep_without_duration_yields(seconds: float) -> None:
    assert await shortest_excess(seconds, 1) >= 0.0
