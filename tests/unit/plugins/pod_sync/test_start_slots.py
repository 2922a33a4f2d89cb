"""Tests for the limit of sandboxes and containers that are started in parallel."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.testing import make_pod
from nodeagent_plugins.pod_sync import start_slots
from nodeagent_plugins.pod_sync.start_slots import StartSlots, default_slots


@pytest.fixture
def unlimited_time(monkeypatch):
    monkeypatch.setattr(start_slots, "SLOT_SECONDS", 3600)


async def start_twelve_pods(bench, clock):
    bench.runtime.hang("run_sandbox")
    jobs = [asyncio.create_task(bench.sync(make_pod(f"p{number}"))) for number in range(12)]
    await clock.settle()
    return jobs


@pytest.mark.parametrize(("cpus", "slots"), [(None, 4), (1, 4), (2, 4), (3, 6), (5, 10)])
async def test_sandboxes_of_two_pods_per_cpu_are_created_in_parallel(
    make_bench, clock, monkeypatch, unlimited_time, cpus, slots
):
    monkeypatch.setattr("os.cpu_count", lambda: cpus)
    bench = make_bench()

    jobs = await start_twelve_pods(bench, clock)

    assert bench.calls.count("run_sandbox") == slots == default_slots()
    bench.runtime.recover()
    await asyncio.gather(*jobs)
    assert len(bench.runtime.running()) == 12


async def test_hanging_starts_do_not_delay_those_of_other_pods(make_bench, clock, monkeypatch):
    monkeypatch.setattr(start_slots, "SLOT_SECONDS", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    bench = make_bench()

    jobs = await start_twelve_pods(bench, clock)
    while bench.calls.count("run_sandbox") < 12:
        await asyncio.sleep(0.001)

    bench.runtime.recover()
    await asyncio.gather(*jobs)


async def test_given_up_slot_is_released_once(monkeypatch):
    monkeypatch.setattr(start_slots, "SLOT_SECONDS", 0)
    slots = StartSlots(1)
    async with slots.sandbox(), slots.sandbox():
        monkeypatch.setattr(start_slots, "SLOT_SECONDS", 3600)

    async with slots.sandbox():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), slots.sandbox():
                pytest.fail("two holders of one slot")


async def test_slot_of_a_failed_start_is_released(unlimited_time):
    slots = StartSlots(1)

    with pytest.raises(ValueError, match="no network"):
        async with slots.sandbox():
            raise ValueError("no network")

    async with slots.sandbox():
        pass


async def test_containers_start_before_sandboxes_that_wait(unlimited_time):
    slots, started = StartSlots(1), list[str]()

    async def start(name: str) -> None:
        async with slots.container() if name.startswith("container") else slots.sandbox():
            started.append(name)

    async with slots.sandbox():
        jobs = [asyncio.create_task(start(name)) for name in ("sandbox 1", "container 1", "sandbox 2", "container 2")]
        await asyncio.sleep(0)
    await asyncio.gather(*jobs)

    assert started == ["container 1", "container 2", "sandbox 1", "sandbox 2"]


@pytest.mark.parametrize("late", [False, True])
async def test_cancelled_start_leaves_its_turn_to_the_next_one(unlimited_time, late):
    slots = StartSlots(1)

    async def start() -> str:
        async with slots.sandbox():
            return "started"

    async with slots.sandbox():
        cancelled, following = asyncio.create_task(start()), asyncio.create_task(start())
        await asyncio.sleep(0)
        if not late:
            cancelled.cancel()
    if late:  # Its turn has come, but it has not run yet.
        cancelled.cancel()

    assert await following == "started"
    assert cancelled.cancelled()
