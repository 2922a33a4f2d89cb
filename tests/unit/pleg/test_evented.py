"""Tests for the evented PLEG."""

import asyncio

from nodeagent.errors import RuntimeUnavailable
from nodeagent.pleg.cache import PodCache
from nodeagent.pleg.evented import LATENCY, EventedPleg
from nodeagent.pleg.generic import GenericPleg
from nodeagent.testing import FakeRuntime, eventually, make_pod


async def test_event_triggers_sync_of_its_pod_and_latency_is_measured(clock):
    runtime, triggered, before = FakeRuntime(clock, events=True), [], LATENCY.count()
    cache = PodCache(lambda: runtime, clock)
    generic = GenericPleg(lambda: runtime, cache, clock, trigger_sync=lambda uid: None)
    task = asyncio.create_task(EventedPleg(lambda: runtime, cache, generic, clock, trigger_sync=triggered.append).run())
    await clock.advance(0)

    runtime.start("main", make_pod("web"))
    await eventually(lambda: triggered)
    await clock.settle()

    assert set(triggered) == {"uid-web"}
    assert LATENCY.count() == before + len(triggered)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_long_relist_interval_is_healthy_until_the_stream_breaks(clock):
    runtime = FakeRuntime(clock, events=True)
    cache = PodCache(lambda: runtime, clock)
    generic = GenericPleg(lambda: runtime, cache, clock, trigger_sync=lambda uid: None)
    task = asyncio.create_task(EventedPleg(lambda: runtime, cache, generic, clock, trigger_sync=lambda uid: None).run())
    await clock.advance(0)
    runtime.start("main", make_pod("web"))
    await eventually(lambda: generic.period_seconds == 300)

    await clock.advance(599)
    assert generic.health.problem == ""
    await clock.advance(1)
    assert generic.health.problem == "pleg was last seen active 10m0s ago; threshold is 10m0s"

    runtime.end_events()
    await eventually(lambda: generic.period_seconds == 1)
    await generic.relist()
    await clock.advance(180)
    assert generic.health.problem == "pleg was last seen active 3m0s ago; threshold is 3m0s"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_generic_pleg_is_used_after_five_failures_of_the_stream(clock, caplog):
    caplog.set_level("DEBUG")
    runtime = FakeRuntime(clock, events=True)
    cache = PodCache(lambda: runtime, clock)
    generic = GenericPleg(lambda: runtime, cache, clock, trigger_sync=lambda uid: None)
    attempts = []

    def events():
        attempts.append(clock.now())
        return _broken()

    async def _broken():
        raise RuntimeUnavailable("no stream")
        yield

    runtime.events = events
    task = asyncio.create_task(EventedPleg(lambda: runtime, cache, generic, clock, trigger_sync=lambda uid: None).run())
    await clock.advance(1000)

    assert task.done() and len(attempts) == 5
    assert "Fall back to Generic PLEG relisting since Evented PLEG is not working" in caplog.messages
