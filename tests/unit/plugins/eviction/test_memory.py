"""Tests for the memory watcher."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent.base.aio import TaskOwner
from nodeagent.model.eviction_thresholds import Signal, Threshold, parse_amount
from nodeagent.testing import FakeCgroups, FakeClock
from nodeagent_plugins.eviction import memory
from nodeagent_plugins.eviction.memory import (
    LONGEST_POLL_SECONDS,
    REPEAT_SECONDS,
    CgroupMemory,
    MemoryWatch,
    NodeMemory,
    pods_cgroup,
)
from nodeagent_plugins.eviction.notification import StallNotification
from tests.descriptors import open_descriptors

MI = 1024 * 1024
HARD = Threshold(Signal.MEMORY, parse_amount("100Mi"))
SOFT = Threshold(Signal.MEMORY, parse_amount("500Mi"), False, 30.0)
V1 = "30 1 0:1 / {root}/mem rw,relatime shared:5 - cgroup cgroup rw,memory"
V2 = "30 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,memory_recursiveprot"


class Machine:
    """Files of a host with 1000 MiB."""

    def __init__(self, root: Path, mount: str) -> None:
        self.root = root
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/mountinfo").write_text(mount.replace("{root}", "") + "\n")
        (root / "mem").mkdir()
        self.set(available=900)

    def set(self, available: int, inactive: int = 50) -> None:
        """Set *available* MiB, *inactive* of them in file pages."""
        used = 1000 - available + inactive
        (self.root / "proc/meminfo").write_text(
            f"MemTotal: {1000 * 1024} kB\nMemFree: {(1000 - used) * 1024} kB\nInactive(file): {inactive * 1024} kB\n"
        )
        (self.root / "mem/memory.usage_in_bytes").write_text(f"{used * MI}\n")
        (self.root / "mem/memory.stat").write_text(f"cache 5\ntotal_inactive_file {inactive * MI}\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, V1)


@pytest.mark.parametrize(("mount", "version_1"), [(V1, True), (V2, False)])
def test_reclaimable_pages_are_available(tmp_path: Path, mount: str, version_1: bool):
    machine = Machine(tmp_path, mount)
    machine.set(available=300, inactive=120)
    files = NodeMemory(tmp_path)

    reading = files.read()

    assert (files.cgroup is not None) is version_1
    assert (reading.capacity, reading.available) == (1000 * MI, 300 * MI)
    assert reading.inactive_file == 120 * MI


async def test_hard_threshold_is_reported_within_a_second_and_repeatedly(machine: Machine, clock: FakeClock):
    reported: list[float] = []
    watch = MemoryWatch(
        [HARD, SOFT], {Signal.MEMORY: NodeMemory(machine.root)}, clock, lambda: reported.append(clock.now())
    )
    async with TaskOwner("test") as tasks:
        tasks.start(watch.run(), "watch")

        machine.set(available=400)
        await clock.advance(5)
        assert reported == []
        machine.set(available=99)
        await clock.advance(0.9)
        assert len(reported) == 1
        await clock.advance(REPEAT_SECONDS)
        assert len(reported) == 2
        assert reported[1] - reported[0] == REPEAT_SECONDS
        machine.set(available=400)
        await clock.advance(5)
        assert len(reported) == 2


async def test_unreadable_files_are_retried(machine: Machine, clock: FakeClock):
    reported: list[int] = []
    watch = MemoryWatch([HARD], {Signal.MEMORY: NodeMemory(machine.root)}, clock, lambda: reported.append(1))
    (machine.root / "proc/meminfo").write_text("nonsense\n")
    async with TaskOwner("test") as tasks:
        tasks.start(watch.run(), "watch")
        await clock.advance(2)
        assert reported == []

        machine.set(available=0)
        await clock.advance(0.5)
        assert reported == [1]


@pytest.mark.parametrize("unified", [False, True])
async def test_kernel_without_notifications_is_polled(machine: Machine, clock: FakeClock, unified: bool):
    reported: list[int] = []
    source = NodeMemory(machine.root)
    if unified:
        source.cgroup = None
    watch = MemoryWatch(
        [HARD], {Signal.MEMORY: source}, clock, lambda: reported.append(1), kernel=True, stalls=machine.root / "none"
    )
    async with TaskOwner("test") as tasks:
        tasks.start(watch.run(), "watch")

        machine.set(available=0)
        await clock.advance(0.5)

        assert reported


async def test_statistics_are_summed_up_only_near_a_threshold(
    machine: Machine, clock: FakeClock, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    gib = 1024 * 1024
    reported: list[int] = []
    (machine.root / "mem/memory.stat").unlink()
    meminfo = machine.root / "proc/meminfo"
    meminfo.write_text(f"MemTotal: {64 * gib} kB\nMemFree: {32 * gib} kB\nInactive(file): 0 kB\n")
    async with TaskOwner("test") as tasks:
        watch = MemoryWatch([HARD], {Signal.MEMORY: NodeMemory(machine.root)}, clock, lambda: reported.append(1))
        tasks.start(watch.run(), "watch")
        await clock.advance(5)
        assert (reported, caplog.messages) == ([], [])

        meminfo.write_text(f"MemTotal: {64 * gib} kB\nMemFree: 10 kB\nInactive(file): 0 kB\n")
        await clock.advance(LONGEST_POLL_SECONDS)
        assert (reported, caplog.messages) == ([], ["Failed to read memory"])
        (machine.root / "mem/memory.stat").write_text("cache 5\ntotal_inactive_file 0\n")
        (machine.root / "mem/memory.usage_in_bytes").write_text(str(64 * gib * 1024))
        await clock.advance(0.5)
        assert reported == [1]


@pytest.mark.parametrize(
    ("thresholds", "kernel", "needed"),
    [
        ([HARD], False, True),
        ([SOFT], False, False),
        ([SOFT], True, True),
        ([Threshold(Signal.NODEFS, parse_amount("10%"))], True, False),
    ],
)
def test_only_reachable_thresholds_are_watched(
    machine: Machine, clock: FakeClock, thresholds: list[Threshold], kernel: bool, needed: bool
):
    watch = MemoryWatch(thresholds, {Signal.MEMORY: NodeMemory(machine.root)}, clock, lambda: None, kernel=kernel)

    assert watch.needed is needed


@pytest.mark.parametrize(("mount", "names"), [(V1, ("memory.limit_in_bytes", "memory.usage_in_bytes")), (V2, ())])
async def test_memory_of_all_pods_is_compared_with_its_limit(
    tmp_path: Path, clock: FakeClock, mount: str, names: tuple[str, ...]
):
    machine, reported = Machine(tmp_path, mount), list[int]()
    pods = tmp_path / ("mem" if names else "sys/fs/cgroup") / "kubepods"
    pods.mkdir(parents=True)
    limit, usage = names or ("memory.max", "memory.current")
    (pods / "memory.stat").write_text(f"cache 1\ninactive_file {50 * MI}\ntotal_inactive_file {50 * MI}\n")
    (pods / limit).write_text(f"{500 * MI}\n")
    (pods / usage).write_text(f"{400 * MI}\n")
    source = CgroupMemory("/kubepods", tmp_path)
    threshold = Threshold(Signal.ALLOCATABLE_MEMORY, parse_amount("100Mi"))
    sources = {Signal.MEMORY: NodeMemory(machine.root), Signal.ALLOCATABLE_MEMORY: source}
    async with TaskOwner("test") as tasks:
        tasks.start(MemoryWatch([HARD, threshold], sources, clock, lambda: reported.append(1)).run(), "watch")

        await clock.advance(5)
        assert (source.read().capacity, source.read().available, reported) == (500 * MI, 150 * MI, [])
        (pods / usage).write_text(f"{451 * MI}\n")
        await clock.advance(0.9)
        assert reported == [1]


@pytest.mark.parametrize(
    ("parent", "path"),
    [
        ("/kubepods/pod{uid}", "/kubepods"),
        ("/own/kubepods/pod{uid}", "/own/kubepods"),
        ("kubepods-pod{uid}.slice", "/kubepods.slice"),
        ("/kubepods.slice/kubepods-pod{uid}.slice", "/kubepods.slice"),
        ("own-kubepods-pod{uid}.slice", "/own.slice/own-kubepods.slice"),
        ("", ""),
    ],
)
def test_cgroup_of_all_pods_is_derived(parent: str, path: str):
    cgroups = FakeCgroups()
    cgroups.parent = parent

    assert pods_cgroup(cgroups) == path


@pytest.mark.row("config.kernelMemcgNotification")
@pytest.mark.parametrize(("available", "reported"), [(500, 0), (499, 1)])
async def test_soft_threshold_is_checked_when_processes_stall(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, available: int, reported: int
):
    machine, stalls, crossed = Machine(tmp_path, V2), list[Callable[[], None]](), list[int]()

    class Stalls(contextlib.nullcontext[None]):
        def __init__(self, file: Path, stalled: Callable[[], None]) -> None:
            super().__init__()
            stalls.append(stalled)

    monkeypatch.setattr(memory, "StallNotification", Stalls)
    watch = MemoryWatch([SOFT], {Signal.MEMORY: NodeMemory(tmp_path)}, clock, lambda: crossed.append(1), kernel=True)
    async with TaskOwner("test") as tasks:
        tasks.start(watch.run(), "watch")
        await clock.settle()
        machine.set(available=available)

        stalls[0]()

    assert len(crossed) == reported


async def test_stall_notification_releases_its_descriptors(tmp_path: Path):
    os.mkfifo(tmp_path / "memory")
    before = open_descriptors()

    with StallNotification(tmp_path / "memory", lambda: None):
        assert open_descriptors() - before

    assert open_descriptors() <= before


async def test_failed_stall_notification_releases_its_descriptors(tmp_path: Path):
    (tmp_path / "memory").touch()  # A regular file cannot be waited for.
    before = open_descriptors()

    with pytest.raises(PermissionError), StallNotification(tmp_path / "memory", lambda: None):
        pass

    assert open_descriptors() <= before
