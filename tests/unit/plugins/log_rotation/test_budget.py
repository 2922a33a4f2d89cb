"""Tests for the size limit of terminated pods' logs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.model.pod import PodStatus
from nodeagent.testing import FakePodDirectory, FakeRuntime, load_plugin, make_context, make_pod
from nodeagent_plugins import log_rotation
from nodeagent_plugins.log_rotation.budget import LogFile, choose

BLOCK = 4096


@pytest.fixture
def node(tmp_path, clock):
    return Node(tmp_path, clock)


class Node:
    def __init__(self, tmp_path, clock):
        self.directory, self.clock = tmp_path, clock
        self.runtime, self.pods = FakeRuntime(clock), FakePodDirectory()

    def pod(self, name, *, ended=True, rotated=()):
        pod = make_pod(name)
        log = self.directory / name / "0.log"
        log.parent.mkdir()
        for file in (log, *(log.with_name(f"0.log.{stamp}") for stamp in rotated)):
            file.write_bytes(b"x" * BLOCK)
        container = self.runtime.start("main", pod, log_path=str(log))
        if ended:
            self.runtime.exit(container)
            for sandbox in self.runtime.pod(pod.uid).sandboxes:
                self.runtime.kill_sandbox(sandbox.id)
            self.pods.ended.add(pod.uid)
        phase = "Succeeded" if ended else "Running"
        self.pods.add(pod, PodStatus(phase=phase), self.runtime.pod(pod.uid))

    async def run(self, budget=None, seconds=1):
        settings = {} if budget is None else {"log_rotation": {"dead_pod_budget": budget}}
        context = make_context(
            self.directory, clock=self.clock, runtime=self.runtime, pods=self.pods, plugin_settings=settings
        )
        (result,) = load_plugin(log_rotation).provide_all(
            "nodeagent_provide_background_loops", context=context, plugins=None
        )
        loops = [loop for loop in result.value if loop.name == "log_rotation.dead_logs"]
        tasks = [asyncio.create_task(loop.run()) for loop in loops]
        await self.clock.advance(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def left(self):
        return sorted(str(path.relative_to(self.directory)) for path in self.directory.rglob("*.log*"))


async def test_rotated_logs_of_the_pod_terminated_first_are_removed_first(node, clock):
    node.pod("old", rotated=["20240101-000000.gz", "20240101-000010"])
    await clock.advance(10)
    node.pod("new", rotated=["20240101-000000"])

    await node.run(budget=f"{4 * BLOCK}")
    assert node.left() == [
        "new/0.log",
        "new/0.log.20240101-000000",
        "old/0.log",
        "old/0.log.20240101-000010",
    ]

    await node.run(budget=f"{BLOCK}")
    assert node.left() == ["new/0.log"]


async def test_running_pods_keep_their_logs(node):
    node.pod("runs", ended=False, rotated=["20240101-000000"])

    await node.run(budget="0")

    assert len(node.left()) == 2


async def test_default_budget_is_one_gibibyte(node):
    node.pod("ended", rotated=["20240101-000000"])

    await node.run()

    assert len(node.left()) == 2


@pytest.mark.parametrize(("budget", "left"), [("-1", ["ended/0.log"]), ("0", [])])
async def test_negative_budget_is_unlimited(node, budget, left):
    node.pod("ended")

    await node.run(budget=budget)

    assert node.left() == left


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100), st.booleans()), max_size=20), st.integers(0, 500))
def test_remaining_logs_fit_and_the_oldest_are_removed_first(found, budget):
    files = [
        LogFile(Path(f"/{i}"), size, ended, ".1" if rotated else "") for i, (ended, size, rotated) in enumerate(found)
    ]

    gone = choose(files, budget)

    left = [file for file in files if file not in gone]
    assert sum(file.bytes for file in left) <= budget
    if gone:
        newest_gone = max(file.ended_at for file in gone)
        assert all(file.ended_at >= newest_gone for file in left if file.bytes)
        assert sum(file.bytes for file in left) + gone[-1].bytes > budget
