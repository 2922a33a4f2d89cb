"""Tests for ``/containerLogs``."""

import asyncio
from dataclasses import replace

import pytest

from nodeagent.testing import FakeRuntime, make_context, make_pod
from nodeagent_plugins.routes_logs.container import ContainerLogs

LINES = "".join(f"2024-01-02T03:04:0{n}.000000000Z stdout F line {n}\n" for n in range(4))
PATH = "/containerLogs/default/web/main"


@pytest.fixture
def pod():
    return make_pod("web", init_containers=["prepare"])


@pytest.fixture
def context(tmp_path, clock):
    return make_context(tmp_path, clock=clock)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "default_web_uid-web" / "main" / "0.log"
    path.parent.mkdir(parents=True)
    path.write_text(LINES)
    return path


def observe(context, pod, log_path, *, exited=True):
    runtime = FakeRuntime(context.clock)
    container = runtime.start("main", pod)
    if exited:
        runtime.exit(container, 0)
    seen = runtime.pod(pod.uid)
    runs = tuple(replace(run, log_path=str(log_path)) for run in seen.containers)
    context.pods.add(pod, None, replace(seen, containers=runs))
    return runtime


async def test_log_of_a_container_is_sent_as_selected(client, context, pod, log):
    observe(context, pod, log)
    logs = ContainerLogs(context)
    for query, expected in [
        ("", "line 0\nline 1\nline 2\nline 3\n"),
        ("?tailLines=1", "line 3\n"),
        ("?timestamps=true&tailLines=1", "2024-01-02T03:04:03.000000000Z line 3\n"),
        ("?limitBytes=1", "l"),
        ("?limitBytes=7", "line 0\n"),
        ("?limitBytes=10", "line 0\nlin"),
        ("?limitBytes=1000", "line 0\nline 1\nline 2\nline 3\n"),
        ("?stream=Stderr", ""),
        ("?sinceTime=2024-01-02T03:04:02Z", "line 2\nline 3\n"),
        ("?follow=true", "line 0\nline 1\nline 2\nline 3\n"),
    ]:
        status, text = await client.get(logs.handle, f"{PATH}{query}", namespace="default", pod="web", container="main")
        assert (status, text) == (200, expected), query
        assert client.counted == len(expected), query
        assert client.headers["Content-Type"] == "text/plain"
    log.write_text("")
    assert await client.get(logs.handle, PATH, namespace="default", pod="web", container="main") == (200, "")


async def test_log_is_followed_while_the_container_may_write(client, context, pod, log):
    observe(context, pod, log, exited=False)
    handle = ContainerLogs(context).handle
    following = asyncio.create_task(
        client.get(handle, f"{PATH}?follow=true", namespace="default", pod="web", container="main")
    )
    await context.clock.advance(3)
    assert not following.done()

    with log.open("a") as file:
        file.write("2024-01-02T03:05:00.000000000Z stdout F last\n")
    await context.clock.advance(1)
    observe(context, pod, log)
    await context.clock.advance(3)

    assert await following == (200, "line 0\nline 1\nline 2\nline 3\nlast\n")


async def test_following_ends_at_the_byte_limit(client, context, pod, log):
    observe(context, pod, log, exited=False)
    handle, query = ContainerLogs(context).handle, "?follow=true&limitBytes=28"

    async with asyncio.timeout(5):
        status, text = await client.get(handle, f"{PATH}{query}", namespace="default", pod="web", container="main")

    assert (status, text) == (200, "line 0\nline 1\nline 2\nline 3\n")


async def test_following_ends_when_the_pod_was_removed(client, context, pod, log):
    observe(context, pod, log, exited=False)
    observed = context.pods.observed(pod.uid)
    calls = []

    def only_once(uid):
        calls.append(uid)
        return observed if len(calls) == 1 else None

    context.pods.observed = only_once
    handle = ContainerLogs(context).handle

    status, _ = await client.get(handle, f"{PATH}?follow=true", namespace="default", pod="web", container="main")

    assert status == 200


async def test_request_without_a_log_states_the_reason(client, context, pod, log, tmp_path):
    handle = ContainerLogs(context).handle
    context.pods.add(pod)

    async def get(query="", namespace="default", pod="web", container="main"):
        return await client.get(handle, f"{PATH}{query}", namespace=namespace, pod=pod, container=container)

    assert await get(pod="other") == (404, 'pod "other" does not exist\n')
    assert await get(namespace="other") == (404, 'pod "web" does not exist\n')
    assert await get(container="x") == (404, 'container "x" not found in pod "web"\n')
    assert await get() == (400, 'container "main" in pod "web" is not available\n')
    assert await get("?follow=maybe") == (400, '{"message": "Unable to decode query."}')
    expected = (422, '{"message": "Invalid request: tailLines must be at least 0."}')
    assert await get("?tailLines=-1") == expected
    for path in ("", "main/0.log", "/main/0.log"):
        observe(context, pod, path)
        assert await get() == (500, "the runtime does not write a log file for this container\n"), path
    missing = log.with_name("7.log")
    observe(context, pod, missing)
    assert await get_after_a_pause(context, get) == (500, f"failed to open log file {missing}: not there\n")
    link = log.with_name("8.log")
    link.symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret")
    observe(context, pod, link)
    status, text = await get()
    assert status == 500
    assert text.startswith(f"failed to open log file {link}: ")
    assert "not there" not in text


async def get_after_a_pause(context, get):
    task = asyncio.create_task(get())
    await context.clock.advance(1)
    return await task
