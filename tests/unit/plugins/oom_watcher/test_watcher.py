"""Tests for the OOM watcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent.contracts.context import AgentContext
from nodeagent.testing import FakeClock, FakeRuntime, load_plugin, make_context, make_pod
from nodeagent_plugins import oom_watcher
from nodeagent_plugins.oom_watcher import POLL_SECONDS, OomWatcher
from nodeagent_plugins.oom_watcher.counters import cgroup_dir, memory_root
from nodeagent_plugins.oom_watcher.kernel_log import KernelLog, OomKill

POD = make_pod("web", uid="11-22")


@pytest.fixture
def context(tmp_path: Path, clock: FakeClock) -> AgentContext:
    """A node with one pod."""
    runtime = FakeRuntime(clock)
    built = make_context(tmp_path, clock=clock, runtime=runtime)
    runtime.start("main", POD)
    built.pods.add(POD, observed=runtime.pod(POD.uid))  # type: ignore[attr-defined]
    return built


def container_id(context: AgentContext) -> str:
    observed = context.pods.observed(POD.uid)
    assert observed is not None
    return observed.containers[0].id


def events(context: AgentContext) -> list[tuple[str, str, str]]:
    return [(e.regarding.name, e.reason, e.note) for e in context.recorder.events]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("cgroup", "limit", "reported"),
    [
        (
            "/kubepods/pod11-22/cri-containerd-{id}.scope",
            True,
            ("web", "OOMKilled", "Container main: process eat (pid 5) was killed, reached its memory limit"),
        ),
        (
            "/kubepods.slice/kubepods-pod11_22.slice/gone",
            False,
            ("web", "OOMKilled", "Pod: process eat (pid 5) was killed, the node ran out of memory"),
        ),
        ("/", False, ("node-1", "SystemOOM", "System OOM encountered, victim process: eat, pid: 5")),
        (
            "/system.slice/ssh.service",
            False,
            ("node-1", "SystemOOM", "System OOM encountered, victim process: eat, pid: 5"),
        ),
        ("/system.slice/limited.service", True, None),
    ],
)
def test_kill_is_an_event_of_its_pod_or_the_node(
    context: AgentContext, cgroup: str, limit: bool, reported: tuple[str, str, str] | None
) -> None:
    kill = OomKill("eat", 5, cgroup.format(id=container_id(context)), limit)

    OomWatcher(context, KernelLog()).report(kill)

    assert events(context) == ([reported] if reported else [])


async def test_cgroup_counters_are_polled_without_a_log(
    tmp_path: Path, context: AgentContext, clock: FakeClock
) -> None:
    pod = tmp_path / "cgroup/pods/11-22"
    main = pod / container_id(context)
    main.mkdir(parents=True)
    (main / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    watcher = OomWatcher(context, KernelLog(tmp_path / "no log"), cgroups=tmp_path / "cgroup")
    loop = asyncio.create_task(watcher.run())
    await clock.advance(POLL_SECONDS)
    assert events(context) == []  # those were before this agent

    (main / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    (pod / "memory.events.local").write_text("oom 1\noom_kill 4\n")
    await clock.advance(POLL_SECONDS)

    assert events(context) == [
        ("web", "OOMKilled", "Container main: 1 processes were OOM-killed"),
        ("web", "OOMKilled", "Pod: 4 processes were OOM-killed"),
    ]
    loop.cancel()


def test_cgroups_of_pods_are_found(tmp_path: Path) -> None:
    assert memory_root(tmp_path) == tmp_path
    (tmp_path / "memory").mkdir()
    assert memory_root(tmp_path) == tmp_path / "memory"
    directory: Callable[[str], str] = lambda parent: str(cgroup_dir(Path("/c"), parent))  # noqa: E731
    assert directory("/kubepods/burstable/pod1") == "/c/kubepods/burstable/pod1"
    assert directory("kubepods-burstable-pod1_2.slice") == (
        "/c/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice"
    )


def test_watcher_is_a_background_loop(context: AgentContext) -> None:
    manager = load_plugin(oom_watcher, name="oom_watcher", context=context)

    [result] = manager.provide_all("nodeagent_provide_background_loops")

    assert [loop.name for loop in result.value] == ["OOM watcher"]
