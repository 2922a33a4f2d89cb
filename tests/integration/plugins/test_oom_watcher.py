"""Tests for the OOM watcher with processes that the kernel kills in a cgroup of the test."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.testing import FakeRuntime, make_context, make_pod
from nodeagent.testing.clock import FakeClock, eventually
from nodeagent_plugins.oom_watcher import OomWatcher
from nodeagent_plugins.oom_watcher.counters import count_kills, memory_root
from nodeagent_plugins.oom_watcher.kernel_log import KernelLog, OomKill

LIMIT = 16 << 20
EAT = "x = bytearray(256 << 20)\nfor page in range(0, len(x), 4096): x[page] = 1"


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """Cgroup of a pod, with the cgroup of a container that has a low memory limit."""
    pod = memory_root() / f"nodeagent-oom-{os.getpid()}"
    made = pod / "container"
    made.mkdir(parents=True)
    limit = made / "memory.max"
    (limit if limit.exists() else made / "memory.limit_in_bytes").write_text(str(LIMIT))
    yield made
    made.rmdir()
    pod.rmdir()


def eat(cgroup: Path) -> int:
    """Run a process that exceeds the memory limit; return its process ID."""
    command = f'echo $$ > {cgroup}/cgroup.procs && exec "$0" -c "$1"'
    eater = subprocess.Popen(["/bin/sh", "-c", command, sys.executable, EAT])
    assert eater.wait(30) == -9
    return eater.pid


async def test_kernel_log_names_process_and_cgroup(cgroup: Path, tmp_path: Path) -> None:
    kills: list[OomKill] = []
    following = asyncio.create_task(KernelLog().follow(kills.append))
    await asyncio.sleep(0)

    pid = await asyncio.to_thread(eat, cgroup)

    await eventually(lambda: [kill for kill in kills if kill.pid == pid])
    [kill] = [kill for kill in kills if kill.pid == pid]
    assert kill.cgroup.endswith(f"/{cgroup.parent.name}/container")
    assert kill.limit
    following.cancel()
    await asyncio.wait({following})


async def test_cgroup_counter_includes_the_kill(cgroup: Path) -> None:
    before = dict(count_kills(cgroup.parent))

    await asyncio.to_thread(eat, cgroup)

    assert dict(count_kills(cgroup.parent))[str(cgroup)] == before[str(cgroup)] + 1


async def test_kill_outside_pods_causes_no_pod_event(cgroup: Path, tmp_path: Path, clock: FakeClock) -> None:
    context = make_context(tmp_path, clock=clock, runtime=FakeRuntime(clock))
    context.pods.add(make_pod("web"))  # type: ignore[attr-defined]
    log: list[OomKill] = []
    watcher = OomWatcher(context, KernelLog())
    following = asyncio.create_task(KernelLog().follow(lambda kill: (watcher.report(kill), log.append(kill))[1]))
    await asyncio.sleep(0)

    pid = await asyncio.to_thread(eat, cgroup)

    await eventually(lambda: [kill for kill in log if kill.pid == pid])
    assert context.recorder.events == []  # type: ignore[attr-defined]
    following.cancel()
    await asyncio.wait({following})
