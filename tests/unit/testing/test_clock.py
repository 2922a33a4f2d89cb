"""Tests for the fake clock: order of sleeping tasks, work in threads, wall clock."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from nodeagent.testing.clock import FakeClock


async def test_sleeping_tasks_resume_in_order_of_due_time(clock):
    resumed = []

    async def sleeper(seconds):
        await clock.sleep(seconds)
        resumed.append((seconds, clock.now()))

    start = clock.now()
    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (3, 1, 2, 9)]
    await clock.advance(5)

    assert resumed == [(1, start + 1), (2, start + 2), (3, start + 3)]
    assert (clock.now(), clock.sleepers) == (start + 5, 1)
    await clock.advance(4)
    await asyncio.gather(*tasks)


async def test_loop_sleeps_repeatedly_within_one_advance(clock):
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


async def test_advance_waits_for_work_in_threads(clock):
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


async def test_asyncio_timeouts_are_not_affected(clock):
    async with asyncio.timeout(60):
        await clock.advance(3600)


def test_setting_the_wall_clock_does_not_change_the_monotonic_time():
    clock = FakeClock(wall=datetime(2024, 1, 1, tzinfo=UTC))
    before = clock.now()

    clock.set_wall(datetime(2030, 1, 1, tzinfo=UTC))

    assert clock.now() == before
    assert clock.wall() - datetime(2030, 1, 1, tzinfo=UTC) == timedelta(0)


async def test_cancelled_sleep_is_not_counted(clock):
    tasks = [asyncio.create_task(clock.sleep(seconds)) for seconds in (1, 2)]
    await clock.advance(0)
    assert (clock.sleepers, clock.next_due) == (2, 1)

    tasks[0].cancel()
    await clock.settle()
    assert (clock.sleepers, clock.next_due) == (1, 2)
    await clock.advance(2)
    assert (clock.sleepers, clock.next_due) == (0, None)
    assert [task.cancelled() for task in tasks] == [True, False]


async def test_time_that_has_come_needs_no_advance(clock):
    tasks = [asyncio.create_task(sleep) for sleep in (clock.sleep(0), clock.sleep_until(clock.now() - 1))]

    await clock.settle()

    assert [task.done() for task in tasks] == [True, True]
    assert clock.sleepers == 0
