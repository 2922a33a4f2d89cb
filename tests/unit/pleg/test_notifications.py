"""Tests for relists on notifications of the runtime."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nodeagent.errors import RuntimeUnavailable
from nodeagent.pleg.cache import PodCache
from nodeagent.pleg.generic import GenericPleg
from nodeagent.pleg.notifications import ChangeNotifications
from nodeagent.testing import FakeClock, FakeRuntime, make_pod


class LateRuntime(FakeRuntime):
    """Lists a change only after its notification, or without one."""

    silent = False

    async def changes(self) -> AsyncIterator[None]:
        async for _ in super().changes():
            if not self.silent:
                yield


@asynccontextmanager
async def watched(runtime: FakeRuntime, clock: FakeClock) -> AsyncIterator[list[str]]:
    triggered: list[str] = []
    cache = PodCache(lambda: runtime, clock)
    generic = GenericPleg(lambda: runtime, cache, clock, trigger_sync=triggered.append)
    tasks = [
        asyncio.create_task(generic.run()),
        asyncio.create_task(ChangeNotifications(lambda: runtime, generic, clock).run()),
    ]
    try:
        await clock.advance(5)
        yield triggered
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def relists_during(runtime: FakeRuntime, clock: FakeClock, seconds: float) -> int:
    before = len(runtime.called("list_sandboxes"))
    await clock.advance(seconds)
    return len(runtime.called("list_sandboxes")) - before


async def test_runtime_without_notifications_is_listed_every_second(clock: FakeClock):
    runtime = FakeRuntime(clock)
    async with watched(runtime, clock):
        assert await relists_during(runtime, clock, 60) == 60


async def test_quiet_runtime_is_listed_every_ten_seconds(clock: FakeClock):
    runtime = FakeRuntime(clock, notifies=True)
    async with watched(runtime, clock):
        assert await relists_during(runtime, clock, 60) == 6


async def test_notified_change_is_found_before_the_next_regular_relist(clock: FakeClock):
    runtime = FakeRuntime(clock, notifies=True)
    pod = make_pod("web")
    container = runtime.start("main", pod)
    async with watched(runtime, clock) as triggered:
        await clock.advance(17)
        triggered.clear()
        runtime.exit(container, 3)

        assert await relists_during(runtime, clock, 0.1) == 1
        assert triggered == [pod.uid]
        assert await relists_during(runtime, clock, 3) >= 2
        await clock.advance(10)
        assert await relists_during(runtime, clock, 60) == 6


async def test_exit_soon_after_another_change_is_found_early(clock: FakeClock):
    runtime = FakeRuntime(clock, notifies=True)
    pod = make_pod("web")
    container = runtime.start("main", pod)
    async with watched(runtime, clock) as triggered:
        await clock.advance(17)
        runtime.start("other", make_pod("other"))
        await clock.advance(0.1)
        triggered.clear()

        runtime.exit(container, 3)
        await clock.advance(0.3)

        assert triggered == [pod.uid]


@pytest.mark.parametrize(("listing_seconds", "relists"), [(0.0, 42), (0.1, 12)])
async def test_many_changes_cause_fewer_relists_if_the_runtime_is_slow(
    clock: FakeClock, listing_seconds: float, relists: int
):
    runtime = FakeRuntime(clock, notifies=True)
    list_sandboxes = runtime.list_sandboxes

    async def list_slowly(pod_uid: str = ""):
        await clock.sleep(listing_seconds)
        return await list_sandboxes(pod_uid)

    runtime.list_sandboxes = list_slowly
    async with watched(runtime, clock):
        before = len(runtime.called("list_sandboxes"))
        for number in range(40):
            runtime.start("main", make_pod(f"web-{number}"))
            await clock.advance(0.25)
        assert len(runtime.called("list_sandboxes")) - before <= relists


async def test_runtime_is_listed_every_second_until_it_notifies_again(clock: FakeClock):
    runtime = FakeRuntime(clock, notifies=True)
    async with watched(runtime, clock):
        await clock.advance(15)
        runtime.fail("list_sandboxes", RuntimeUnavailable("stopped"), times=None)
        runtime.end_events()
        await clock.advance(12)
        assert await relists_during(runtime, clock, 10) >= 9

        runtime.recover()
        await clock.advance(60)
        assert await relists_during(runtime, clock, 60) == 6


async def test_runtime_that_does_not_notify_of_changes_is_not_relied_on(clock: FakeClock, caplog):
    runtime = LateRuntime(clock, notifies=True)
    async with watched(runtime, clock) as triggered:
        await clock.advance(15)
        runtime.silent = True
        for number in range(3):
            runtime.start("main", make_pod(f"web-{number}"))
            await clock.advance(15)

        assert await relists_during(runtime, clock, 20) == 20
        runtime.silent = False
        runtime.end_events()  # Its notifications are watched again.
        await clock.advance(60)
        assert await relists_during(runtime, clock, 20) == 20
        assert triggered == ["uid-web-0", "uid-web-1", "uid-web-2"]
        assert "Relisting every second, container runtime has not notified of changes" in caplog.messages
