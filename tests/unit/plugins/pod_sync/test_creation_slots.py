"""Tests for the limit of sandboxes that are created in parallel."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.testing import make_pod
from nodeagent_plugins.pod_sync import creation_slots
from nodeagent_plugins.pod_sync.creation_slots import CreationSlots, default_slots


@pytest.fixture
def unlimited_time(monkeypatch):
    monkeypatch.setattr(creation_slots, "SLOT_SECONDS", 3600)


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


async def test_hanging_creations_do_not_delay_those_of_other_pods(make_bench, clock, monkeypatch):
    monkeypatch.setattr(creation_slots, "SLOT_SECONDS", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    bench = make_bench()

    jobs = await start_twelve_pods(bench, clock)
    while bench.calls.count("run_sandbox") < 12:
        await asyncio.sleep(0.001)

    bench.runtime.recover()
    await asyncio.gather(*jobs)


async def test_given_up_slot_is_released_once(monkeypatch):
    monkeypatch.setattr(creation_slots, "SLOT_SECONDS", 0)
    slots = CreationSlots(1)
    async with slots.slot(), slots.slot():
        monkeypatch.setattr(creation_slots, "SLOT_SECONDS", 3600)

    async with slots.slot():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), slots.slot():
                pytest.fail("two holders of one slot")


async def test_slot_of_a_failed_creation_is_released(unlimited_time):
    slots = CreationSlots(1)

    with pytest.raises(ValueError, match="no network"):
        async with slots.slot():
            raise ValueError("no network")

    async with slots.slot():
        pass
