"""Tests for the generic PLEG."""

from datetime import timedelta

from nodeagent.errors import RuntimeUnavailable
from nodeagent.pleg.cache import PodCache
from nodeagent.pleg.generic import LAST_SEEN, POD_RELIST_DURATION, RELIST_DURATION, RELIST_INTERVAL, GenericPleg
from nodeagent.testing import FakeRuntime, make_pod


def build(runtime, clock, is_syncing=lambda uid: False):
    triggered, recovered = [], []
    cache = PodCache(lambda: runtime, clock)
    pleg = GenericPleg(
        lambda: runtime,
        cache,
        clock,
        trigger_sync=triggered.append,
        recovered=lambda: recovered.append(1),
        is_syncing=is_syncing,
    )
    return pleg, cache, triggered, recovered


async def test_container_exit_triggers_one_sync_of_its_pod(clock):
    runtime = FakeRuntime(clock)
    pod = make_pod("web")
    container = runtime.start("main", pod)
    pleg, cache, triggered, _ = build(runtime, clock)
    await pleg.relist()
    triggered.clear()

    runtime.exit(container, 3)
    await clock.advance(1)
    await pleg.relist()
    await pleg.relist()

    assert triggered == [pod.uid]
    assert cache.get(pod.uid).containers[0].exit_code == 3


async def test_change_already_refreshed_by_worker_triggers_no_sync(clock):
    runtime = FakeRuntime(clock)
    pod = make_pod("web")
    pleg, cache, triggered, _ = build(runtime, clock)
    await pleg.relist()
    runtime.start("main", pod)
    await cache.refresh(pod.uid)
    await clock.advance(1)

    await pleg.relist()

    assert triggered == []


async def test_new_container_of_a_pod_in_its_sync_is_left_to_the_worker(clock):
    runtime, syncing = FakeRuntime(clock), set()
    pod = make_pod("web")
    pleg, cache, triggered, _ = build(runtime, clock, syncing.__contains__)
    await pleg.relist()
    syncing.add(pod.uid)
    container = runtime.start("main", pod)
    requests = len(runtime.calls)

    await clock.advance(1)
    await pleg.relist()
    assert (cache.get(pod.uid), triggered) == (None, [])
    assert "container_status" not in [call.method for call in runtime.calls[requests:]]

    syncing.clear()
    await clock.advance(1)
    await pleg.relist()
    assert (cache.get(pod.uid).containers[0].id, triggered) == (container, [pod.uid])


async def test_status_of_a_created_sandbox_is_not_requested_again(clock):
    runtime, pod = FakeRuntime(clock), make_pod("web")
    _, cache, *_ = build(runtime, clock)
    container = runtime.start("main", pod)
    (sandbox,) = await runtime.list_sandboxes()
    created = await runtime.sandbox_status(sandbox.id)
    requests = len(runtime.calls)

    observed = await cache.refresh(pod.uid, frozenset({sandbox.id, container}), created)

    assert [each.id for each in (*observed.sandboxes, *observed.containers)] == [sandbox.id, container]
    assert [call.method for call in runtime.calls[requests:]] == ["container_status"]


async def test_exit_of_a_known_container_is_observed_during_a_sync(clock):
    runtime, syncing = FakeRuntime(clock), set()
    pod = make_pod("web")
    container = runtime.start("main", pod)
    pleg, cache, triggered, _ = build(runtime, clock, syncing.__contains__)
    await pleg.relist()
    syncing.add(pod.uid)
    triggered.clear()
    runtime.exit(container, 3)

    await clock.advance(1)
    await pleg.relist()

    assert (cache.get(pod.uid).containers[0].exit_code, triggered) == (3, [pod.uid])


async def test_removed_container_is_dropped_by_a_refresh_that_names_it(clock):
    runtime = FakeRuntime(clock)
    pod = make_pod("web")
    removed, kept = runtime.start("main", pod), runtime.start("other", pod)
    for container in (removed, kept):
        runtime.exit(container, 1)
    pleg, cache, _, _ = build(runtime, clock)
    await pleg.relist()
    await runtime.remove_container(removed)

    observed = await cache.refresh(pod.uid, frozenset({removed}))

    assert [container.id for container in observed.containers] == [kept]


async def test_unchanged_listing_causes_no_status_requests(clock):
    runtime = FakeRuntime(clock)
    runtime.start("main", make_pod("web"))
    pleg, _, _, _ = build(runtime, clock)
    await pleg.relist()
    requests = len(runtime.called("container_status"))

    for _ in range(5):
        await clock.advance(1)
        await pleg.relist()

    assert len(runtime.called("container_status")) == requests


async def test_containers_are_not_listed_without_sandboxes(clock):
    runtime = FakeRuntime(clock)
    pleg, _, triggered, _ = build(runtime, clock)
    for _ in range(5):
        await pleg.relist()
        await clock.advance(1)

    assert (len(runtime.called("list_sandboxes")), len(runtime.called("list_containers"))) == (5, 1)

    pod = make_pod("web")
    runtime.start("main", pod)
    await pleg.relist()

    assert triggered == [pod.uid]


async def test_removed_pod_is_dropped_from_the_cache(clock):
    runtime = FakeRuntime(clock)
    pod = make_pod("web")
    container = runtime.start("main", pod)
    pleg, cache, triggered, _ = build(runtime, clock)
    await pleg.relist()
    sandbox = cache.get(pod.uid).sandboxes[0].id
    await runtime.stop_container(container, 0)
    await runtime.remove_container(container)
    await runtime.stop_sandbox(sandbox)
    await runtime.remove_sandbox(sandbox)
    triggered.clear()
    await clock.advance(1)

    await pleg.relist()

    assert cache.get(pod.uid) is None
    assert triggered == [pod.uid]


async def test_runtime_outage_is_unhealthy_until_recovery(clock):
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


async def test_failed_status_request_does_not_affect_other_pods(clock):
    runtime = FakeRuntime(clock)
    first, second = make_pod("first"), make_pod("second")
    runtime.start("main", first)
    runtime.start("main", second)
    pleg, cache, triggered, _ = build(runtime, clock)
    runtime.fail("sandbox_status", RuntimeUnavailable("slow"), times=1)

    await pleg.relist()
    assert len(triggered) == 1
    await clock.advance(1)
    await pleg.relist()

    assert {pod.uid for pod in cache.pods()} == {first.uid, second.uid}


async def test_relist_metrics_are_observed(clock):
    runtime = FakeRuntime(clock)
    runtime.start("main", make_pod("web"))
    pleg, *_ = build(runtime, clock)
    before, of_pods = (RELIST_DURATION.count(), RELIST_INTERVAL.count()), POD_RELIST_DURATION.count()
    await pleg.relist()
    await clock.advance(1)
    runtime.fail("*", RuntimeUnavailable("gone"))
    await pleg.relist()

    assert (RELIST_DURATION.count() - before[0], RELIST_INTERVAL.count() - before[1]) == (2, 1)
    assert POD_RELIST_DURATION.count() - of_pods == 1
    assert LAST_SEEN.value() == clock.wall().timestamp()


async def test_starts_and_exits_are_logged_as_events(clock, caplog):
    caplog.set_level("DEBUG")
    runtime = FakeRuntime(clock)
    container = runtime.start("main", make_pod("web"))
    pleg, *_ = build(runtime, clock)
    await pleg.relist()
    started = [vars(record) for record in caplog.records]
    caplog.clear()

    runtime.exit(container, 3)
    await clock.advance(1)
    await pleg.relist()

    assert [record["event"] for record in started] == ["ContainerStarted", "ContainerStarted"]
    (exited,) = caplog.records
    assert exited.getMessage() == "SyncLoop (PLEG): event for pod"
    fields = vars(exited)
    assert (fields["pod"], fields["event"], fields["id"]) == ("default/web", "ContainerDied", container)


async def test_clock_set_back_does_not_change_the_latest_container(clock):
    runtime = FakeRuntime(clock)
    pod = make_pod("web")
    first = runtime.start("main", pod)
    _, cache, _, _ = build(runtime, clock)
    runtime.exit(first)
    runtime.kill_sandbox(runtime.pod(pod.uid).sandboxes[0].id)
    clock.set_wall(clock.wall() - timedelta(hours=1))
    latest = runtime.start("main", pod, attempt=1)

    observed = await cache.refresh(pod.uid)

    assert observed.newest("main").id == latest
    assert [sandbox.attempt for sandbox in observed.sandboxes] == [1, 0]


async def test_pod_whose_status_cannot_be_read_is_unknown_not_absent(clock):
    runtime = FakeRuntime(clock)
    pod = make_pod("web")
    runtime.start("main", pod)
    pleg, cache, _, _ = build(runtime, clock)
    runtime.fail("sandbox_status", RuntimeUnavailable("busy"))

    await pleg.relist()
    assert cache.get(pod.uid) is None
    assert not cache.is_known(pod.uid)

    await clock.advance(1)
    await pleg.relist()
    assert cache.get(pod.uid).alive
    assert cache.is_known(pod.uid)


async def test_listed_pods_are_known_before_their_status_is_read(clock):
    runtime = FakeRuntime(clock)
    read, unread = make_pod("read"), make_pod("unread")
    runtime.start("main", read)
    pleg, cache, _, _ = build(runtime, clock)
    assert cache.uids() is None
    await pleg.relist()
    runtime.start("main", unread)
    runtime.fail("sandbox_status", RuntimeUnavailable("busy"))

    await pleg.relist()

    assert cache.uids() == {read.uid, unread.uid}
    assert [pod.uid for pod in cache.pods()] == [read.uid]
    cache.forget(unread.uid)
    assert cache.uids() == {read.uid}
