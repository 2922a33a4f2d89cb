"""Tests for the cache of pod statuses: what is queried, what is reused, and concurrent refreshes."""

import asyncio

import pytest

from nodeagent.errors import RuntimeFailure
from nodeagent.pleg.cache import PodCache
from nodeagent.testing import FakeRuntime, make_pod

POD = make_pod("web")


@pytest.fixture
def runtime(clock):
    return FakeRuntime(clock)


@pytest.fixture
def cache(runtime, clock):
    return PodCache(lambda: runtime, clock)


def queried(runtime):
    """Return the IDs whose status was queried since the last call."""
    found = [call.arguments[0] for call in runtime.calls if call.method in ("container_status", "sandbox_status")]
    runtime.calls.clear()
    return found


async def test_refresh_queries_all_except_exited_containers_that_are_known(cache, runtime, clock):
    exited, running = runtime.start("a", POD), runtime.start("b", POD)
    runtime.exit(exited, 1)
    sandbox = runtime.pod(POD.uid).sandboxes[0].id
    for expected in ({exited, running, sandbox}, {running, sandbox}):
        await clock.advance(1)
        pod = await cache.refresh(POD.uid)
        assert set(queried(runtime)) == expected
        assert {container.name for container in pod.containers} == {"a", "b"}
    assert (pod.name, pod.namespace) == (POD.name, POD.namespace)


async def test_refresh_of_touched_ids_reuses_the_others(cache, runtime, clock):
    first = runtime.start("a", POD)
    await cache.refresh(POD.uid)
    queried(runtime)
    await clock.advance(1)
    second = runtime.start("b", POD)
    runtime.exit(first, 3)

    pod = await cache.refresh(POD.uid, frozenset({second}))
    assert queried(runtime) == [second]
    assert pod.newest("b").id == second
    assert pod.newest("a").exit_code == 0, "not queried again"
    await clock.advance(1)
    pod = await cache.refresh(POD.uid, frozenset({first, "removed"}))
    assert pod.newest("a").exit_code == 3
    assert len(pod.containers) == 2


async def test_created_sandbox_is_added_once_without_a_query(cache, runtime, clock):
    runtime.start("a", POD)
    created = runtime.pod(POD.uid).sandboxes[0]
    for _ in range(2):
        pod = await cache.refresh(POD.uid, frozenset({created.id}), created)
        assert [sandbox.id for sandbox in pod.sandboxes] == [created.id]
        await clock.advance(1)
    assert created.id not in queried(runtime)


async def test_removed_objects_are_dropped(cache, runtime, clock):
    first = runtime.start("a", POD)
    runtime.start("b", POD)
    await cache.refresh(POD.uid)
    await runtime.stop_container(first, 0)
    await runtime.remove_container(first)
    await clock.advance(1)

    pod = await cache.refresh(POD.uid, frozenset({first}))
    assert [container.name for container in pod.containers] == ["b"]
    await runtime.remove_sandbox(pod.sandboxes[0].id)
    await clock.advance(1)
    pod = await cache.refresh(POD.uid)
    assert pod is None or not pod.containers


@pytest.fixture
def delayed(runtime, monkeypatch):
    """Delay the first status of a container until this event is set."""
    released, query = asyncio.Event(), runtime.container_status

    async def container_status(container_id):
        status = await query(container_id)
        monkeypatch.setattr(runtime, "container_status", query)
        await released.wait()
        return status

    monkeypatch.setattr(runtime, "container_status", container_status)
    return released


@pytest.mark.parametrize("is_relist", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
async def test_newer_result_is_not_replaced_by_an_older_one(cache, runtime, clock, delayed, is_relist, is_known):
    container = runtime.start("a", POD)
    sandbox = runtime.pod(POD.uid).sandboxes[0].id
    if is_known:
        await cache.refresh(POD.uid, frozenset({sandbox}))
        await clock.advance(1)
    changed = frozenset({sandbox, container})
    if is_relist:
        slow = asyncio.create_task(cache.observe(POD.uid, [sandbox], [container], changed, clock.now()))
    else:
        slow = asyncio.create_task(cache.refresh(POD.uid))
    await clock.advance(1)
    runtime.exit(container, 2)
    fast = await cache.refresh(POD.uid)
    delayed.set()

    assert await slow is fast is cache.get(POD.uid)
    assert fast.newest("a").exit_code == 2


async def test_change_at_the_time_of_the_last_refresh_is_read(cache, runtime, clock):
    container = runtime.start("a", POD)
    known = await cache.refresh(POD.uid)
    runtime.exit(container, 2)

    ids = [known.sandboxes[0].id], [container]
    observed = await cache.observe(POD.uid, *ids, frozenset({container}), known.observed_at)

    assert observed.newest("a").exit_code == 2


@pytest.mark.parametrize("is_known", [True, False])
async def test_pod_without_sandboxes_has_its_name(cache, runtime, clock, is_known):
    container = runtime.start("a", POD)
    if is_known:
        await cache.refresh(POD.uid)
        await clock.advance(1)

    pod = await cache.observe(POD.uid, [], [container], frozenset({container}), clock.now())

    assert (pod.name, pod.namespace, pod.sandboxes) == (POD.name, POD.namespace, ())
    assert [each.id for each in pod.containers] == [container]


async def test_earlier_relist_keeps_a_later_status(cache, runtime, clock):
    container = runtime.start("a", POD)
    await cache.refresh(POD.uid)
    await clock.advance(1)
    at = clock.now()
    await clock.advance(1)
    newest = await cache.refresh(POD.uid)
    queried(runtime)
    assert await cache.observe(POD.uid, [], [], frozenset({container}), at) is newest
    assert queried(runtime) == []


@pytest.fixture
async def outdated(cache, runtime, clock):
    """A container whose status could not be read since it was changed."""
    container = runtime.start("a", POD)
    runtime.start("b", POD)
    await cache.refresh(POD.uid)
    await clock.advance(1)
    runtime.fail("container_status", RuntimeFailure("no response"))
    with pytest.raises(RuntimeFailure):
        await cache.refresh(POD.uid, frozenset({container}))
    queried(runtime)
    return container


async def test_pod_whose_changed_container_cannot_be_read_is_not_known(cache, runtime, outdated):
    assert not cache.is_known(POD.uid)

    await cache.refresh(POD.uid)

    assert outdated in queried(runtime)
    assert cache.is_known(POD.uid)


async def test_relist_reads_a_container_that_could_not_be_read_since_a_change(cache, runtime, clock, outdated):
    observed = cache.get(POD.uid)
    sandboxes, containers = [each.id for each in observed.sandboxes], [each.id for each in observed.containers]

    await cache.observe(POD.uid, sandboxes, containers, frozenset(), clock.now())

    assert queried(runtime) == [outdated]
    assert cache.is_known(POD.uid)


async def test_refresh_of_other_containers_leaves_the_outdated_one(cache, runtime, outdated):
    other = cache.get(POD.uid).newest("b").id

    await cache.refresh(POD.uid, frozenset({other}))
    assert not cache.is_known(POD.uid)

    await cache.refresh(POD.uid, frozenset({outdated}))
    assert cache.is_known(POD.uid)


async def test_outdated_containers_of_a_removed_pod_are_forgotten(cache, outdated):
    cache.listed([])

    assert cache.is_known(POD.uid)
