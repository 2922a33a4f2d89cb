"""How long the runtime's events take to arrive is counted."""

import asyncio

from nodeagent.pleg.cache import PodCache
from nodeagent.pleg.evented import LATENCY, EventedPleg
from nodeagent.pleg.generic import GenericPleg
from nodeagent.testing import FakeRuntime, eventually, make_pod


async def test_an_event_wakes_its_pod_and_its_way_is_measured(clock):
    runtime, woken, before = FakeRuntime(clock, events=True), [], LATENCY.count()
    cache = PodCache(lambda: runtime, clock)
    generic = GenericPleg(lambda: runtime, cache, clock, wake=lambda uid: None)
    task = asyncio.create_task(EventedPleg(lambda: runtime, cache, generic, clock, wake=woken.append).run())
    await clock.advance(0)

    runtime.start("main", make_pod("web"))
    await eventually(lambda: woken)
    await clock.settle()

    assert set(woken) == {"uid-web"}
    assert LATENCY.count() == before + len(woken)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
