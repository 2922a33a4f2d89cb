"""Tests for the return of free memory to the kernel."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from nodeagent.base import memory_trim
from nodeagent.base.aging_cache import aging_cache
from nodeagent.base.memory_trim import START_SECONDS, TRIM_SECONDS, run_memory_trim
from nodeagent.testing import FakeClock


async def test_heap_is_trimmed_after_the_start_and_then_periodically(
    monkeypatch: pytest.MonkeyPatch, clock: FakeClock
) -> None:
    loop, trims = asyncio.get_running_loop(), asyncio.Queue[float]()
    monkeypatch.setattr(memory_trim, "trim", lambda: loop.call_soon_threadsafe(trims.put_nowait, clock.now()))
    started = clock.now()
    running = asyncio.create_task(run_memory_trim(clock))

    for number in (0, 1, 2):
        await clock.advance((TRIM_SECONDS if number else START_SECONDS) - 1)
        assert trims.empty()
        await clock.advance(1)
        assert await asyncio.wait_for(trims.get(), 10) == started + START_SECONDS + number * TRIM_SECONDS
        while not clock.sleepers:
            await asyncio.sleep(0)

    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_code_that_was_used_is_released_with_each_trim(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    loop, trims, releases = asyncio.get_running_loop(), asyncio.Queue[None](), []
    monkeypatch.setattr(memory_trim, "release_unchanged_pages", lambda: releases.append(clock.now()))
    monkeypatch.setattr(memory_trim, "trim", lambda: loop.call_soon_threadsafe(trims.put_nowait, None))
    started = clock.now()
    running = asyncio.create_task(run_memory_trim(clock))

    for seconds in (START_SECONDS, TRIM_SECONDS):
        await clock.advance(seconds)
        await asyncio.wait_for(trims.get(), 10)
        while not clock.sleepers:
            await asyncio.sleep(0)

    assert releases == [started + START_SECONDS, started + START_SECONDS + TRIM_SECONDS]
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_cached_results_that_are_not_used_are_dropped(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    results = aging_cache(10)(object)
    first = results()
    loop, trims = asyncio.get_running_loop(), asyncio.Queue[None]()
    monkeypatch.setattr(memory_trim, "trim", lambda: loop.call_soon_threadsafe(trims.put_nowait, None))
    running = asyncio.create_task(run_memory_trim(clock))

    for seconds, is_cached in ((START_SECONDS, True), (TRIM_SECONDS, True), (TRIM_SECONDS, False)):
        await clock.advance(seconds)
        await asyncio.wait_for(trims.get(), 10)
        while not clock.sleepers:
            await asyncio.sleep(0)
        if seconds == START_SECONDS or not is_cached:
            assert (results() is first) is is_cached

    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
