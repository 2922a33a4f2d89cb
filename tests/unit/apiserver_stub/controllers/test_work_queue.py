"""Tests for the work queue of controllers."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.work_queue import UnprocessableObject, WorkQueue
from nodeagent.testing import FakeClock


@asynccontextmanager
async def running(queue: WorkQueue[str], process: Callable[[str], Awaitable[None]], **options: Any):
    task = asyncio.ensure_future(queue.run(process, **options))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def recorder(done: list[str]) -> Callable[[str], Awaitable[None]]:
    async def process(key: str) -> None:
        done.append(key)

    return process


async def test_key_added_twice_is_processed_once(clock: FakeClock) -> None:
    queue, done = WorkQueue[str]("test", clock), []
    for key in ("a", "b", "a"):
        queue.add(key)

    async with running(queue, recorder(done)):
        await clock.settle()

    assert done == ["a", "b"]
    assert len(queue) == 0


async def test_key_added_while_processed_is_processed_again_afterwards(clock: FakeClock) -> None:
    queue, active, runs = WorkQueue[str]("test", clock), 0, 0

    async def process(key: str) -> None:
        nonlocal active, runs
        active, runs = active + 1, runs + 1
        assert active == 1
        if runs == 1:
            queue.add(key)
        await asyncio.sleep(0)
        active -= 1

    queue.add("a")
    async with running(queue, process, at_once=5):
        await clock.settle()

    assert runs == 2


async def test_failing_key_is_retried_with_back_off_and_logged_once(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    queue, times = WorkQueue[str]("test", clock, first_pause_seconds=1, max_pause_seconds=8), []

    async def process(key: str) -> None:
        times.append(clock.now())
        if len(times) < 7:
            raise ApiError(500, "InternalError", "broken")

    queue.add("a")
    async with running(queue, process):
        await clock.advance(100)

    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert [low <= pause <= low * 1.1 for low, pause in zip((1, 2, 4, 8, 8, 8), pauses, strict=True)] == [True] * 6
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_unexpected_error_does_not_stop_the_queue(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    queue, done = WorkQueue[str]("test", clock), []

    async def process(key: str) -> None:
        done.append(key)
        if key == "bad":
            raise KeyError("metadata")

    queue.add("bad")
    queue.add("good")
    async with running(queue, process):
        await clock.settle()

    assert done == ["bad", "good"]
    assert caplog.records[0].exc_info is not None


async def test_unprocessable_object_is_logged_without_a_traceback(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    queue = WorkQueue[str]("test", clock)

    async def process(key: str) -> None:
        raise UnprocessableObject("no controller")

    queue.add("a")
    async with running(queue, process):
        await clock.settle()

    assert [(record.levelno, record.exc_info) for record in caplog.records] == [(logging.WARNING, None)]


async def test_success_resets_the_back_off(clock: FakeClock) -> None:
    queue, times = WorkQueue[str]("test", clock, first_pause_seconds=1, max_pause_seconds=100), []

    async def process(key: str) -> None:
        times.append(clock.now())
        if len(times) in (1, 2, 3, 5):
            raise ApiError(500, "InternalError", "broken")

    queue.add("a")
    async with running(queue, process):
        await clock.advance(50)
        queue.add("a")
        await clock.advance(50)

    assert len(times) == 6
    assert 1 <= times[5] - times[4] <= 1.1


async def test_key_is_processed_once_per_interval(clock: FakeClock) -> None:
    queue, times = WorkQueue[str]("test", clock, interval_seconds=0.2), []

    async def process(key: str) -> None:
        times.append(clock.now())
        queue.add(key)

    queue.add("a")
    async with running(queue, process):
        await clock.advance(1.05)

    assert len(times) == 6


async def test_key_with_a_conflicting_writer_is_slowed_down(clock: FakeClock) -> None:
    queue, runs = WorkQueue[str]("test", clock, first_pause_seconds=1, max_pause_seconds=64), 0

    async def process(key: str) -> None:
        nonlocal runs
        runs += 1
        queue.slow_down(key)

    async with running(queue, process):
        for _ in range(600):
            queue.add("a")
            await clock.advance(1)
        assert runs < 20
        await clock.advance(500)
        runs = 0
        queue.add("a")
        await clock.advance(0)
        queue.add("a")
        await clock.advance(1.2)

    assert runs == 2


async def test_delayed_key_keeps_the_earliest_time(clock: FakeClock) -> None:
    queue, times = WorkQueue[str]("test", clock), []

    async def process(key: str) -> None:
        times.append(clock.now())

    start = clock.now()
    queue.add_after("a", 5)
    queue.add_after("a", 2)
    queue.add_after("a", 9)
    async with running(queue, process):
        await clock.advance(20)

    assert [time - start for time in times] == [2]


async def test_batches_are_limited_and_yield_to_other_tasks(clock: FakeClock) -> None:
    queue, active, most, turns = WorkQueue[int]("test", clock), 0, 0, []
    done = 0

    async def process(key: int) -> None:
        nonlocal active, most, done
        active += 1
        most = max(most, active)
        await asyncio.sleep(0)
        active, done = active - 1, done + 1

    async def other() -> None:
        while True:
            turns.append(done)
            await asyncio.sleep(0)

    for key in range(100):
        queue.add(key)
    meter = asyncio.ensure_future(other())
    async with running(queue, process, at_once=7):  # type: ignore[arg-type]
        while done < 100:
            await asyncio.sleep(0)
    meter.cancel()
    await asyncio.gather(meter, return_exceptions=True)

    assert most == 7
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 7


@pytest.mark.parametrize(("seconds", "adds", "retries"), [(0, 1, 0), (-1, 1, 0), (5, 0, 1)])
def test_key_that_is_delayed_again_for_the_same_time_is_counted_once(
    clock: FakeClock, seconds: float, adds: int, retries: int
) -> None:
    queue = WorkQueue[str]("test", clock)
    for _ in range(2):
        queue.add_after("a", seconds)
    assert (queue.counts.adds, queue.counts.retries) == (adds, retries)


@pytest.mark.parametrize(("quiet_seconds", "pause_seconds"), [(16, 2), (16.5, 1)])
async def test_pauses_of_a_slowed_key_start_again_after_a_quiet_time(
    clock: FakeClock, quiet_seconds: float, pause_seconds: float
) -> None:
    queue, times = WorkQueue[str]("test", clock, first_pause_seconds=1, max_pause_seconds=8), []

    async def process(key: str) -> None:
        times.append(clock.now())

    queue.slow_down("a")
    await clock.advance(quiet_seconds)
    queue.slow_down("a")
    queue.add("a")
    start = clock.now()
    async with running(queue, process):
        await clock.advance(10)

    (time,) = times
    assert pause_seconds <= time - start <= pause_seconds * 1.1
