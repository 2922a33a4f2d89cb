"""Tests for the disk watcher."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from nodeagent.base.aio import TaskOwner
from nodeagent.model.eviction_thresholds import Signal, Threshold, parse_amount
from nodeagent.testing import FakeClock
from nodeagent_plugins.eviction.disk import LONGEST_POLL_SECONDS, SHORTEST_POLL_SECONDS, DiskWatch

MI = 1024 * 1024
SPACE = Threshold(Signal.NODEFS, parse_amount("10%"))
PATHS = {Signal.NODEFS: Path("/agent")}
INODES = Threshold(Signal.NODEFS_INODES, parse_amount("5"))


class Disk(NamedTuple):
    """Fake ``statvfs`` result for 1000 MiB and 100 inodes."""

    f_bavail: int
    f_ffree: int = 100
    f_blocks: int = 1000
    f_files: int = 100
    f_frsize: int = MI


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Callable[[Disk | OSError], None]:
    def show(disk: Disk | OSError) -> None:
        def statvfs(path: Path) -> Disk:
            if isinstance(disk, OSError):
                raise disk
            return disk

        monkeypatch.setattr(os, "statvfs", statvfs)

    return show


@pytest.mark.parametrize("low", [Disk(99), Disk(900, f_ffree=4)])
async def test_crossing_is_reported_once(show: Callable[[Disk | OSError], None], clock: FakeClock, low: Disk):
    reported: list[float] = []
    watch = DiskWatch([SPACE, INODES], lambda: PATHS, clock, lambda: reported.append(clock.now()))
    async with TaskOwner("test") as tasks:
        tasks.start(watch.run(), "watch")

        for disk, times in ((Disk(100), 0), (low, 1), (OSError("gone"), 1), (low, 1), (Disk(100), 1), (low, 2)):
            show(disk)
            await clock.advance(SHORTEST_POLL_SECONDS)
            assert len(reported) == times


async def test_disk_with_much_space_is_checked_less_often(monkeypatch: pytest.MonkeyPatch, clock: FakeClock):
    checks: list[float] = []

    def statvfs(path: Path) -> Disk:
        checks.append(clock.now())
        return Disk(1000 << 30, f_blocks=2000 << 30, f_ffree=10**9, f_files=2 * 10**9)

    monkeypatch.setattr(os, "statvfs", statvfs)
    async with TaskOwner("test") as tasks:
        tasks.start(DiskWatch([SPACE, INODES], lambda: PATHS, clock, lambda: None).run(), "watch")
        await clock.advance(SHORTEST_POLL_SECONDS + 5 * LONGEST_POLL_SECONDS)

    assert len(checks) == 6


def test_soft_thresholds_and_other_signals_are_ignored(clock: FakeClock):
    others = [Threshold(Signal.NODEFS, parse_amount("10%"), False, 5.0), Threshold(Signal.PID, parse_amount("1k"))]

    assert not DiskWatch(others, lambda: PATHS, clock, lambda: None).needed
    assert DiskWatch([SPACE], lambda: PATHS, clock, lambda: None).needed


@pytest.mark.parametrize("inodes", [False, True])
async def test_image_disk_is_watched_as_soon_as_it_is_detected(
    monkeypatch: pytest.MonkeyPatch, clock: FakeClock, inodes: bool
):
    disks = {Path("/agent"): Disk(900), Path("/images"): Disk(900)}
    monkeypatch.setattr(os, "statvfs", disks.__getitem__)
    reported, paths = list[float](), dict(PATHS)
    thresholds = [SPACE, Threshold(Signal.IMAGEFS, SPACE.limit), Threshold(Signal.IMAGEFS_INODES, INODES.limit)]
    watch = DiskWatch(thresholds, lambda: paths, clock, lambda: reported.append(clock.now()))
    async with TaskOwner("test") as tasks:
        tasks.start(watch.run(), "watch")
        disks[Path("/images")] = Disk(900, f_ffree=4) if inodes else Disk(50)
        await clock.advance(SHORTEST_POLL_SECONDS)
        assert reported == []

        paths[Signal.IMAGEFS] = Path("/images")
        await clock.advance(SHORTEST_POLL_SECONDS)
        assert len(reported) == 1
        disks[Path("/agent")] = Disk(50)
        await clock.advance(SHORTEST_POLL_SECONDS)
        assert len(reported) == 2, "the other disk is short as well"
        await clock.advance(5 * SHORTEST_POLL_SECONDS)
        assert len(reported) == 2
