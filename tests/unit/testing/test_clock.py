"""The stepped clock wakes sleepers in order and lets what they start come to rest."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from nodeagent.testing.clock import FakeClock


async def test_wakes_sleepers_in_the_order_they_are_due(clock):
    woken = []

    async def sleeper(seconds):
        await clock.sleep(seconds)
        woken.append((seconds, clock.now()))

    start = clock.now()
    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (3, 1, 2, 9)]
    await clock.advance(5)

    assert woken == [(1, start + 1), (2, start + 2), (3, start + 3)]
    assert (clock.now(), clock.sleepers) == (start + 5, 1)
    await clock.advance(4)
    await asyncio.gather(*tasks)


async def test_a_loop_sleeps_again_within_one_step(clock):
    ticks = []

    async def loop():
        while True:
            await clock.sleep(1)
            ticks.append(clock.now())

    task = asyncio.create_task(loop())
    await clock.advance(3)

    assert len(ticks) == 3
    assert clock.sleepers == 1
    task.cancel()
    assert clock.sleepers == 0


async def test_waits_for_work_in_threads(clock):
    done = []

    async def work():
        await asyncio.to_thread(time.sleep, 0.02)
        await asyncio.to_thread(done.append, 1)
        await clock.sleep(1)
        await asyncio.to_thread(done.append, 2)

    task = asyncio.create_task(work())
    await clock.advance(1)

    assert done == [1, 2]
    await task


async def test_bounds_on_the_machines_clock_are_not_stepped(clock):
    async with asyncio.timeout(60):
        await clock.advance(3600)


def test_the_time_of_day_follows_and_can_be_set():
    clock = FakeClock(wall=datetime(2024, 1, 1, tzinfo=UTC))
    before = clock.now()

    clock.set_wall(datetime(2030, 1, 1, tzinfo=UTC))

    assert clock.now() == before
    assert clock.wall() - datetime(2030, 1, 1, tzinfo=UTC) == timedelta(0)
