"""Tests for the fake runtime and the fake images: controls for tests, recorded calls, events."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.contracts.runtime import ContainerState, Credentials, ExecResult, RuntimeEventType
from nodeagent.errors import NotFound, RuntimeFailure, RuntimeUnavailable
from nodeagent.testing import FakeImages, FakeRuntime, make_pod, sandbox_config


@pytest.fixture
async def runtime(clock):
    return FakeRuntime(clock)


async def test_running_container_is_added_and_exits(runtime):
    web = runtime.start("web")
    assert runtime.running() == ["web/web"]
    runtime.exit(web, 3)
    status = await runtime.container_status(web)
    assert (status.state, status.exit_code, status.reason) == (ContainerState.EXITED, 3, "Error")


async def test_container_exits_after_the_specified_time(runtime, clock):
    runtime.behave("job", exit_code=0, after_seconds=5, message="done")
    job = runtime.start("job")
    await clock.advance(4)
    assert runtime.running() == ["job/job"]
    await clock.advance(10)
    status = await runtime.container_status(job)
    assert (status.state, status.message) == (ContainerState.EXITED, "done")
    assert status.finished_at - status.started_at == 5 * 10**9


async def test_container_that_ignores_sigterm_uses_its_grace_period(runtime, clock):
    runtime.behave("slow", ignores_term=True)
    slow = runtime.start("slow")
    stopping = asyncio.create_task(runtime.stop_container(slow, 10))
    await clock.advance(9)
    assert not stopping.done()
    await clock.advance(1)
    assert (await runtime.container_status(slow)).exit_code == 137


async def test_injected_failures_and_hangs_recover(runtime, clock):
    runtime.fail("*", RuntimeUnavailable("down"), times=None)
    with pytest.raises(RuntimeUnavailable):
        await runtime.list_containers()
    runtime.recover()
    runtime.hang("list_sandboxes")
    hanging = asyncio.create_task(runtime.list_sandboxes())
    await clock.advance(100)
    assert not hanging.done()
    runtime.recover("list_sandboxes")
    assert await hanging == ()
    assert [call.method for call in runtime.calls] == ["list_containers", "list_sandboxes"]


async def test_exec_returns_the_result_of_the_handler(runtime):
    web = runtime.start("web")
    runtime.on_exec("web", lambda command: ExecResult(1, command[0].encode()))
    assert await runtime.exec_sync(web, ["probe"], 1) == ExecResult(1, b"probe")


async def test_event_stream_reports_changes_with_the_state_of_the_pod(clock):
    assert FakeRuntime(clock).events() is None
    runtime = FakeRuntime(clock, events=True)
    stream = runtime.events()
    first = asyncio.create_task(anext(stream))
    await clock.advance(0)
    web = runtime.start("web")
    events = [await first] + [await anext(stream) for _ in range(3)]
    assert [(e.type, e.container_id == web) for e in events] == [
        (RuntimeEventType.CREATED, False),
        (RuntimeEventType.STARTED, False),
        (RuntimeEventType.CREATED, True),
        (RuntimeEventType.STARTED, True),
    ]
    assert events[-1].pod.containers[0].state is ContainerState.RUNNING
    runtime.end_events()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_sandboxes_of_a_pod_have_successive_attempts(runtime):
    pod, other = make_pod("web"), make_pod("other")
    runtime.start("main", pod)
    runtime.start("more", pod)
    runtime.start("main", other)
    (first,) = [each.id for each in await runtime.list_sandboxes() if each.uid == pod.uid]
    runtime.kill_sandbox(first)
    runtime.start("main", pod)
    assert sorted((each.uid, each.attempt) for each in await runtime.list_sandboxes()) == [
        (other.uid, 0),
        (pod.uid, 0),
        (pod.uid, 1),
    ]


async def test_changes_are_notified_only_if_the_runtime_supports_it(clock):
    with pytest.raises(NotImplementedError):
        await anext(FakeRuntime(clock).changes())
    runtime = FakeRuntime(clock, notifies=True)
    first = asyncio.create_task(anext(runtime.changes()))
    await clock.advance(0)
    runtime.start("web")
    await first


async def test_container_requires_an_image_in_the_store(clock):
    images = FakeImages()
    runtime = FakeRuntime(clock, images=images)
    pod = make_pod("web")
    sandbox_id = await runtime.run_sandbox(sandbox_config(pod))
    other = FakeRuntime(clock)
    config = other.config_of(other.start("main"))
    with pytest.raises(NotFound):
        await runtime.create_container(sandbox_id, config, sandbox_config(pod))
    images.add("image")
    await runtime.create_container(sandbox_id, config, sandbox_config(pod))


async def test_private_image_requires_valid_credentials():
    images = FakeImages()
    images.serve("registry.test/private:1", ("user", "secret"))
    for wrong in (None, Credentials("user", "guess")):
        with pytest.raises(RuntimeFailure, match="401"):
            await images.pull_image("registry.test/private:1", wrong)
    ref = await images.pull_image("registry.test/private:1", Credentials("user", "secret"))
    assert (await images.image_status(ref)).repo_tags == ("registry.test/private:1",)
    assert len(images.pulls) == 3


async def test_removed_sandbox_has_no_containers_and_others_keep_theirs(runtime):
    web, other = runtime.start("web"), runtime.start("other")
    (sandbox,) = [each.sandbox_id for each in await runtime.list_containers() if each.id == web]

    await runtime.remove_sandbox(sandbox)

    assert [container.id for container in await runtime.list_containers()] == [other]


async def test_stats_are_those_of_running_containers(runtime):
    ended, running = runtime.start("ended"), runtime.start("running")
    runtime.exit(ended)

    assert [each.id for each in await runtime.container_stats()] == [running]
