"""The PLEG wakes a pod once for each change and outlives an outage of the runtime."""

from nodeagent.errors import RuntimeUnavailable
from nodeagent.pleg.cache import PodCache
from nodeagent.pleg.generic import LAST_SEEN, RELIST_DURATION, RELIST_INTERVAL, GenericPleg
from nodeagent.testing import FakeRuntime, make_pod


def build(runtime, clock):
    woken, recovered = [], []
    cache = PodCache(lambda: runtime, clock)
    pleg = GenericPleg(lambda: runtime, cache, clock, wake=woken.append, recovered=lambda: recovered.append(1))
    return pleg, cache, woken, recovered


async def test_wakes_a_pod_once_when_its_container_dies(clock):
    runtime = FakeRuntime(clock)
    pod = make_pod("web")
    container = runtime.start("main", pod)
    pleg, cache, woken, _ = build(runtime, clock)
    await pleg.relist()
    woken.clear()

    runtime.exit(container, 3)
    await clock.advance(1)
    await pleg.relist()
    await pleg.relist()

    assert woken == [pod.uid]
    assert cache.get(pod.uid).containers[0].exit_code == 3


async def test_what_a_worker_looked_at_itself_wakes_nobody(clock):
    runtime = FakeRuntime(clock)
    pod = make_pod("web")
    pleg, cache, woken, _ = build(runtime, clock)
    await pleg.relist()
    runtime.start("main", pod)
    await cache.refresh(pod.uid)
    await clock.advance(1)

    await pleg.relist()

    assert woken == []


async def test_asks_nothing_more_while_nothing_changes(clock):
    runtime = FakeRuntime(clock)
    runtime.start("main", make_pod("web"))
    pleg, _, _, _ = build(runtime, clock)
    await pleg.relist()
    asked = len(runtime.called("container_status"))

    for _ in range(5):
        await clock.advance(1)
        await pleg.relist()

    assert len(runtime.called("container_status")) == asked


async def test_nobody_asks_for_containers_while_there_is_no_sandbox(clock):
    runtime = FakeRuntime(clock)
    pleg, _, woken, _ = build(runtime, clock)
    for _ in range(5):
        await pleg.relist()
        await clock.advance(1)

    assert (len(runtime.called("list_sandboxes")), len(runtime.called("list_containers"))) == (5, 1)

    pod = make_pod("web")
    runtime.start("main", pod)
    await pleg.relist()

    assert woken == [pod.uid]


async def test_a_vanished_pod_is_forgotten(clock):
    runtime = FakeRuntime(clock)
    pod = make_pod("web")
    container = runtime.start("main", pod)
    pleg, cache, woken, _ = build(runtime, clock)
    await pleg.relist()
    sandbox = cache.get(pod.uid).sandboxes[0].id
    await runtime.stop_container(container, 0)
    await runtime.remove_container(container)
    await runtime.stop_sandbox(sandbox)
    await runtime.remove_sandbox(sandbox)
    woken.clear()
    await clock.advance(1)

    await pleg.relist()

    assert cache.get(pod.uid) is None
    assert woken == [pod.uid]


async def test_an_outage_is_reported_and_its_end_announced(clock):
    runtime = FakeRuntime(clock)
    pleg, _, _, recovered = build(runtime, clock)
    runtime.fail("list_containers", RuntimeUnavailable("gone"), times=2)

    assert not await pleg.relist()
    await clock.advance(200)
    assert pleg.health.problem == "pleg was last seen active 3m20s ago; threshold is 3m0s"
    assert not await pleg.relist()
    assert await pleg.relist()

    assert recovered == [1]
    assert pleg.health.problem == ""


async def test_a_pod_that_cannot_be_looked_at_does_not_hold_up_the_others(clock):
    runtime = FakeRuntime(clock)
    first, second = make_pod("first"), make_pod("second")
    runtime.start("main", first)
    runtime.start("main", second)
    pleg, cache, woken, _ = build(runtime, clock)
    runtime.fail("sandbox_status", RuntimeUnavailable("slow"), times=1)

    await pleg.relist()
    assert len(woken) == 1
    await clock.advance(1)
    await pleg.relist()

    assert {pod.uid for pod in cache.pods()} == {first.uid, second.uid}


async def test_listings_are_timed(clock):
    runtime = FakeRuntime(clock)
    pleg, *_ = build(runtime, clock)
    before = RELIST_DURATION.count(), RELIST_INTERVAL.count()
    await pleg.relist()
    await clock.advance(1)
    runtime.fail("*", RuntimeUnavailable("gone"))
    await pleg.relist()

    assert (RELIST_DURATION.count() - before[0], RELIST_INTERVAL.count() - before[1]) == (2, 1)
    assert LAST_SEEN.value() == clock.wall().timestamp()
