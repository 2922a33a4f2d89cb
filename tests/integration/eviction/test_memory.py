"""Tests for memory threshold notifications of the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.base.aio import TaskOwner
from nodeagent.base.quantity import Quantity
from nodeagent.model.eviction_thresholds import Amount, Signal, Threshold
from nodeagent.testing import FakeClock
from nodeagent.testing.clock import eventually
from nodeagent_plugins.eviction.memory import REARM_SECONDS, MemoryWatch, NodeMemory

MI = 1024 * 1024
EATER = """
import sys
sys.stdin.readline()
held = b"x" * (64 << 20)
sys.stdin.readline()
"""
THRASHER = """
import mmap, os, sys
sys.stdin.readline()
file = open(sys.argv[1], "w+b")
for _ in range(64):
    file.write(bytes(1 << 20))
file.flush()
os.fsync(file.fileno())
held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
while True:
    for page in range(0, len(held), 4096):
        held[page]
"""


class OneCgroup(NodeMemory):
    """Memory of a node whose only consumer is one cgroup."""

    def __init__(self, cgroup: Path) -> None:
        super().__init__()
        self.cgroup = cgroup


@pytest.fixture
def cgroup() -> Iterator[Path]:
    mount = NodeMemory().cgroup
    assert mount is not None, "needs cgroup v1"
    cgroup_path = mount / f"eviction-test-{os.getpid()}"
    cgroup_path.mkdir()
    yield cgroup_path
    cgroup_path.rmdir()


@pytest.mark.row("config.kernelMemcgNotification")
async def test_crossed_threshold_causes_a_notification_without_polling(cgroup: Path, clock: FakeClock) -> None:
    files, notifications = OneCgroup(cgroup), list[int]()
    left = Amount(Quantity(files.read().capacity - 32 * MI))
    watch = MemoryWatch(
        [Threshold(Signal.MEMORY, left)], {Signal.MEMORY: files}, clock, lambda: notifications.append(1), kernel=True
    )
    eater = subprocess.Popen([sys.executable, "-c", EATER], stdin=subprocess.PIPE)
    assert eater.stdin is not None
    (cgroup / "cgroup.procs").write_text(str(eater.pid))
    try:
        async with TaskOwner("test") as tasks:
            tasks.start(watch.run(), "watch")
            await clock.settle()
            assert notifications == []

            eater.stdin.write(b"\n")
            eater.stdin.flush()
            await eventually(lambda: notifications)  # The clock of the watch does not advance.

            await eventually(
                lambda: files.read().usage > 64 * MI
            )  # Includes the files that it reads, until it has read them.
            notifications.clear()
            await clock.advance(REARM_SECONDS)
            assert notifications  # A threshold crossed earlier is reported at the start of the watch.
    finally:
        eater.communicate(b"\n", timeout=10)


class Unified(NodeMemory):
    """Memory of a node that appears to have cgroup v2."""

    def __init__(self) -> None:
        super().__init__()
        self.cgroup = None


@pytest.mark.row("config.kernelMemcgNotification")
async def test_cgroup_v2_thresholds_are_checked_under_memory_pressure(
    cgroup: Path, clock: FakeClock, tmp_path: Path
) -> None:
    notifications = list[int]()
    everything, nothing = Amount(Quantity(NodeMemory().read().capacity)), Amount(Quantity(0))
    soft = [Threshold(Signal.MEMORY, limit, hard=False) for limit in (everything, nothing)]
    crossed, far = ([each] for each in soft)
    (cgroup / "memory.limit_in_bytes").write_text(str(16 * MI))
    reader = subprocess.Popen([sys.executable, "-c", THRASHER, str(tmp_path / "file")], stdin=subprocess.PIPE)
    assert reader.stdin is not None
    (cgroup / "cgroup.procs").write_text(str(reader.pid))
    sources = {Signal.MEMORY: Unified()}
    try:
        async with TaskOwner("test") as tasks:
            tasks.start(
                MemoryWatch(crossed, sources, clock, lambda: notifications.append(1), kernel=True).run(), "watch"
            )
            tasks.start(MemoryWatch(far, sources, clock, lambda: notifications.append(2), kernel=True).run(), "calm")
            await clock.settle()
            assert notifications == []

            reader.stdin.write(b"\n")
            reader.stdin.flush()

            await eventually(lambda: notifications, within_seconds=30)  # The clock of the watch does not advance.
            assert set(notifications) == {1}
    finally:
        reader.kill()
        reader.communicate(timeout=10)
