"""Tests for the change of a volume's group, and the events while it takes long."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeagent.contracts.storage_operations import APPLY_ACCESS_CONTROL, OPERATIONS
from nodeagent.contracts.volume_ownership import change_group
from nodeagent.testing import FakeClock, FakeRecorder, make_context, make_pod

PLUGIN = "kubernetes.io/csi:driver.example"
GROUP = os.getgid()


class SlowDisk:
    """Runs the work, but reports its end only when a test allows it."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def run(self, work: Callable[[], None]) -> None:
        work()
        await self.ended.wait()


def volume(root: Path, uid: str) -> Path:
    path = root / "pods" / uid / "volumes/kubernetes.io~csi/pv/mount"
    path.mkdir(parents=True)
    for name in "abc":
        (path / name).touch(mode=0o600)
    return path


async def test_long_change_records_events_with_its_progress(tmp_path: Path, clock: FakeClock) -> None:
    recorder, disk, pod = FakeRecorder(), SlowDisk(), make_pod("web", security_context={"fsGroup": GROUP})
    context, path = make_context(tmp_path, clock=clock, recorder=recorder), volume(tmp_path, pod.uid)
    task = asyncio.create_task(change_group(context, pod, path, GROUP, run=disk.run, plugin=PLUGIN))
    await clock.advance(29)
    assert recorder.of("VolumePermissionChangeInProgress") == []
    await clock.advance(1)
    await clock.advance(60)
    disk.ended.set()
    await task
    await clock.advance(600)

    name = f"{pod.uid}/volumes/kubernetes.io~csi/pv/mount"
    first, second = (event.note for event in recorder.of("VolumePermissionChangeInProgress"))
    assert first.startswith(
        f"Setting volume ownership for {name} is taking longer than expected, consider using OnRootMismatch - https://"
    )
    assert second == f"Setting volume ownership for {name}, processed 3 files."


async def test_change_is_measured_and_obeys_the_policy(tmp_path: Path, clock: FakeClock) -> None:
    security = {"fsGroup": GROUP, "fsGroupChangePolicy": "OnRootMismatch"}
    recorder, pod = FakeRecorder(), make_pod("web", security_context=security)
    context, path = make_context(tmp_path, clock=clock, recorder=recorder), volume(tmp_path, pod.uid)
    path.chmod(0o2770)
    before = OPERATIONS.count(PLUGIN, APPLY_ACCESS_CONTROL, "success", "true")
    disk = SlowDisk()
    disk.ended.set()
    await change_group(context, pod, path, GROUP, run=disk.run, plugin=PLUGIN, migrated=True)
    assert (path / "a").stat().st_mode & 0o777 == 0o600
    assert OPERATIONS.count(PLUGIN, APPLY_ACCESS_CONTROL, "success", "true") == before + 1

    with pytest.raises(OSError, match="missing"):
        await change_group(context, pod, path / "missing", GROUP, run=disk.run, plugin=PLUGIN)
    assert OPERATIONS.count(PLUGIN, APPLY_ACCESS_CONTROL, "fail-unknown", "false") == 1


async def test_matching_directory_is_skipped_only_with_the_policy_for_mismatches(
    tmp_path: Path, clock: FakeClock
) -> None:
    context = make_context(tmp_path, clock=clock)
    for policy, changed in [("OnRootMismatch", False), ("Always", True), (None, True)]:
        pod = make_pod(f"web-{policy}", security_context={"fsGroupChangePolicy": policy} if policy else {})
        path = volume(tmp_path, pod.uid)
        path.chmod(0o2770)
        disk = SlowDisk()
        disk.ended.set()
        await change_group(context, pod, path, GROUP, run=disk.run, plugin=PLUGIN)
        assert ((path / "a").stat().st_mode & 0o777 != 0o600) is changed, policy
