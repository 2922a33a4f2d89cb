"""Tests for container garbage collection."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from nodeagent.base.duration import Duration
from nodeagent.contracts.runtime import ContainerState, Mount
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import RuntimeFailure, RuntimeUnavailable
from nodeagent.model.pod import PodStatus
from nodeagent.testing import FakePodDirectory, FakeRuntime, load_plugin, make_context, make_pod
from nodeagent_plugins import container_gc


class Node:
    def __init__(self, tmp_path, clock):
        self.root, self.clock = tmp_path, clock
        self.runtime, self.pods = FakeRuntime(clock), FakePodDirectory()

    def pod(self, name, phase="Running", reason=""):
        pod = make_pod(name, containers=["main", "side"])
        self.pods.add(pod, PodStatus(phase=phase, reason=reason))
        if phase != "Running":
            self.pods.ended.add(pod.uid)
        return pod

    async def dead(self, pod, count=1, name="main", **config):
        """Add *count* exited runs of a container, one per second."""
        for _ in range(count):
            self.runtime.exit(self.runtime.start(name, pod, **config))
            await self.clock.advance(1)

    async def left(self):
        lists = {pod.name: await self.runtime.list_containers(pod.uid) for pod in self.pods.all()}
        return sorted(f"{pod}/{one.name}/{one.attempt}" for pod, found in lists.items() for one in found)

    def load(self, **settings):
        self.context = make_context(
            self.root,
            clock=self.clock,
            runtime=self.runtime,
            pods=self.pods,
            settings=NodeSettings(node_name="node-1", root_dir=str(self.root), **settings),
        )
        self.plugins = load_plugin(container_gc, context=self.context)

    @asynccontextmanager
    async def collecting(self, **settings):
        self.load(**settings)
        (result,) = self.plugins.provide_all(
            "nodeagent_provide_background_loops", context=self.context, plugins=self.plugins
        )
        task = asyncio.create_task(result.value[0].run())
        await self.clock.advance(1)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def reclaim(self, signal="nodefs.available"):
        self.load()
        return [result.value for result in await self.plugins.gather("nodeagent_reclaim_disk", signal=signal)]


@pytest.fixture
async def node(tmp_path, clock):
    return Node(tmp_path, clock)


async def test_terminated_pods_keep_the_latest_of_each_container(node):
    pod = node.pod("ended", "Succeeded")
    await node.dead(pod, 3)
    await node.dead(pod, 1, "side")

    async with node.collecting():
        pass

    assert await node.left() == ["ended/main/2", "ended/side/3"]


@pytest.mark.parametrize(("kept", "left"), [(0, 0), (2, 2), (-1, 3)])
async def test_limit_per_container_comes_from_the_flag(node, kept, left):
    await node.dead(node.pod("ended", "Failed"), 3)

    async with node.collecting(maximum_dead_containers_per_container=kept):
        pass

    assert len(await node.left()) == left


async def test_nothing_is_removed_before_the_minimum_age(node):
    await node.dead(node.pod("ended", "Failed"), 2)

    async with node.collecting(minimum_container_ttl_duration=Duration.parse("90s")):
        await node.clock.advance(59)
        young = await node.left()
        await node.clock.advance(60)

    assert young == ["ended/main/0", "ended/main/1"]
    assert "ended/main/1" in await node.left()


async def test_limit_per_node_removes_equally_then_the_oldest(node):
    for name in ("a", "b", "c"):
        await node.dead(node.pod(name, "Succeeded"), 3)

    async with node.collecting(maximum_dead_containers=7, maximum_dead_containers_per_container=-1):
        alike = await node.left()
    async with node.collecting(maximum_dead_containers=2, maximum_dead_containers_per_container=-1):
        few = await node.left()

    assert alike == ["a/main/1", "a/main/2", "b/main/1", "b/main/2", "c/main/1", "c/main/2"]
    assert few == ["b/main/2", "c/main/2"]


async def test_active_pod_keeps_containers_that_restarts_require(node):
    pod = node.pod("lives")
    await node.dead(pod, 2)
    await node.dead(pod, 1, "side")
    node.runtime.start("side", pod)

    async with node.collecting(maximum_dead_containers=0):
        pass

    assert await node.left() == ["lives/main/1", "lives/side/3"]


async def test_all_containers_of_an_evicted_pod_are_removed(node):
    await node.dead(node.pod("evicted", "Failed", "Evicted"), 1)
    for sandbox in await node.runtime.list_sandboxes():
        node.runtime.kill_sandbox(sandbox.id)

    async with node.collecting():
        pass

    assert await node.left() == []
    assert await node.runtime.list_sandboxes() == ()


async def test_latest_empty_sandbox_is_retained(node):
    pod = node.pod("ended", "Succeeded")
    for _ in range(3):
        container = node.runtime.start("main", pod)
        sandbox = (await node.runtime.list_sandboxes())[0]
        await node.runtime.remove_container(container)
        node.runtime.kill_sandbox(sandbox.id)
        await node.clock.advance(1)

    async with node.collecting():
        pass

    assert [sandbox.attempt for sandbox in await node.runtime.list_sandboxes()] == [2]


async def test_latest_container_is_retained_after_the_clock_was_set_back(node):
    pod = node.pod("ended", "Succeeded")
    await node.dead(pod)
    node.clock.set_wall(node.clock.wall() - timedelta(hours=1))
    await node.dead(pod)

    async with node.collecting():
        pass

    assert "ended/main/1" in await node.left()


async def test_unknown_pods_are_left_to_housekeeping(node):
    unmanaged = make_pod("stranger")
    await node.dead(unmanaged, 3)

    async with node.collecting(maximum_dead_containers=0):
        pass

    assert len(await node.runtime.list_containers()) == 3


async def test_logs_and_termination_messages_are_removed(node):
    pod = node.pod("ended", "Succeeded")
    logs = node.root / "logs" / "main"
    words = node.root / "pods" / pod.uid / "containers" / "main" / "abc"
    volume = node.root / "pods" / pod.uid / "volumes" / "main" / "kept"
    for path in (logs / "0.log", logs / "0.log.20240101-000000.gz", logs / "1.log", words, volume):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    mounts = [Mount("/dev/termination-log", str(words)), Mount("/data", str(volume))]
    await node.dead(pod, 1, log_path=str(logs / "0.log"), mounts=mounts)
    await node.dead(pod, 1, log_path=str(logs / "1.log"))

    async with node.collecting():
        pass

    left = sorted(str(path.relative_to(node.root)) for path in node.root.rglob("*") if path.is_file())
    assert left == ["logs/main/1.log", f"pods/{pod.uid}/volumes/main/kept"]


@pytest.mark.parametrize("log_path", ["", ".", "0.log"])
async def test_container_without_a_log_removes_no_files(node, monkeypatch, log_path):
    directory = node.root / "here"
    directory.mkdir()
    for name in (".kept", "..kept", "0.log", "0.log.1"):
        (directory / name).touch()
    monkeypatch.chdir(directory)
    await node.dead(node.pod("ended", "Succeeded"), 2, log_path=log_path)

    async with node.collecting():
        pass

    assert "ended/main/1" in await node.left()
    assert len(list(directory.iterdir())) == 4


async def test_container_in_unknown_state_is_stopped_first(node):
    pod = node.pod("ended", "Failed")
    await node.dead(pod, 2)
    oldest = (await node.runtime.list_containers())[-1].id
    node.runtime._container(oldest).state = ContainerState.UNKNOWN
    node.runtime._lists.clear()

    async with node.collecting():
        pass

    assert [call.arguments[0] for call in node.runtime.called("stop_container")] == [oldest]
    assert "ended/main/1" in await node.left()


async def test_failed_removal_does_not_affect_the_others(node):
    await node.dead(node.pod("ended", "Succeeded"), 4)
    node.runtime.fail("remove_container", RuntimeFailure("busy"))

    async with node.collecting():
        first = await node.left()
        await node.clock.advance(60)

    assert len(first) == 2
    assert await node.left() == ["ended/main/3"]


async def test_failure_is_an_event(node):
    node.runtime.fail("list_containers", RuntimeUnavailable("gone"))

    async with node.collecting():
        pass

    (event,) = node.context.recorder.events
    assert (event.reason, event.note, event.regarding.kind) == ("ContainerGCFailed", "gone", "Node")


@pytest.mark.parametrize("signal", ["nodefs.available", "nodefs.inodesFree", "imagefs.available"])
async def test_disk_pressure_removes_every_dead_container_without_need(node, signal):
    ended, lives = node.pod("ended", "Succeeded"), node.pod("lives")
    log = node.root / "0.log"
    log.write_text("x")
    await node.dead(ended, 1, log_path=str(log))
    await node.dead(lives, 2)

    (freed,) = await node.reclaim(signal)

    assert await node.left() == ["lives/main/1"]
    assert freed.bytes == 1
    assert [item.split()[0] for item in freed.items] == ["main/0", "main/0"]


async def test_other_signals_are_ignored(node):
    assert await node.reclaim("memory.available") == []
    assert await node.reclaim("pid.available") == []
