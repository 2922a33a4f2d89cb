"""Tests for drivers that replace directories of volumes while the agent uses them: nothing outside is changed."""

from __future__ import annotations

import contextlib
import json
import os
import threading

import pytest

from nodeagent.errors import VolumeError
from nodeagent.testing.pods import make_pod
from nodeagent_plugins.csi.directories import remove_directory, unlink

ROUNDS = 25


class Swapper(threading.Thread):
    """Replaces a directory by a symbolic link and back, again and again."""

    def __init__(self, directory, target):
        super().__init__(daemon=True)
        self.directory, self.target = directory, target
        self.aside, self.link = directory.with_name("aside"), directory.with_name("link")
        self.ended = threading.Event()
        self.swaps = 0

    def run(self):
        # The pause lets some calls reach their later steps with the directory.
        while not self.ended.wait(0.001):
            with contextlib.suppress(OSError):
                self.link.symlink_to(self.target)
            with contextlib.suppress(OSError):
                os.rename(self.directory, self.aside)
                os.rename(self.link, self.directory)
                self.swaps += 1
            with contextlib.suppress(OSError):
                if self.directory.is_symlink():
                    self.directory.unlink()
                os.rename(self.aside, self.directory)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


@pytest.fixture
def outside(tmp_path):
    """Directories of another volume, which must not change."""
    directory = tmp_path / "outside"
    for name in ("globalmount", "mount"):
        (directory / name).mkdir(parents=True)
    data = {"driverName": "other.example", "volumeHandle": "other"}
    (directory / "vol_data.json").write_text(json.dumps(data))
    (directory / "globalmount").chmod(0o700)
    return directory


def content(directory):
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        found[path.name] = (status.st_mode, status.st_gid, path.read_bytes() if path.is_file() else b"")
    return found


async def test_staging_directory_swapped_for_a_link_changes_nothing_outside(harness, outside):
    before, path = content(outside), harness.kind._paths.staging("test.csi.example", "volume-1")
    path.parent.mkdir(parents=True)
    with Swapper(path.parent, outside) as swapper:
        for _ in range(ROUNDS):
            with contextlib.suppress(VolumeError):
                device = await harness.kind.mount_device(harness.request())
                await harness.kind.unmount_device(device)

    assert swapper.swaps
    assert content(outside) == before
    assert {call["volume_id"] for call in harness.storage.calls("NodeUnstageVolume")} <= {"volume-1"}


async def test_target_directory_swapped_for_a_link_changes_nothing_outside(harness, outside):
    pod = make_pod(security_context={"fsGroup": os.getgid()})
    request = harness.request(harness.spec(fs_type="ext4"), pod)
    harness.put_driver(attachRequired=False, fsGroupPolicy="File")
    await harness.kind.mount_device(request)
    before = content(outside)
    request.directory.mkdir()
    with Swapper(request.directory, outside) as swapper:
        for _ in range(ROUNDS):
            with contextlib.suppress(VolumeError):
                await harness.kind.mount(request)
            with contextlib.suppress(VolumeError):
                await harness.kind.unmount(harness.on_disk(request))

    assert swapper.swaps
    assert {name: value for name, value in content(outside).items() if name != "mount"} == {
        name: value for name, value in before.items() if name != "mount"
    }
    assert {call["volume_id"] for call in harness.storage.calls("NodeUnpublishVolume")} <= {"volume-1"}


async def test_link_to_another_volume_is_not_unstaged(harness, outside):
    device = await harness.kind.mount_device(harness.request())
    directory = device.path.parent
    directory.rename(directory.with_name("aside"))
    directory.symlink_to(outside)
    before = content(outside)

    with pytest.raises(VolumeError, match="failed to load volume data file"):
        await harness.kind.unmount_device(device)

    assert content(outside) == before
    assert "NodeUnstageVolume" not in harness.storage.methods()


async def test_volume_with_the_data_of_another_is_not_released(harness):
    request = harness.request()
    device = await harness.kind.mount_device(request)
    await harness.kind.mount(request)
    other = json.dumps({"driverName": "test.csi.example", "volumeHandle": "other"})
    for directory in (device.path.parent, request.directory):
        (directory / "vol_data.json").write_text(other)
    volume = harness.on_disk(request, unique_name=device.unique_name)

    with pytest.raises(VolumeError, match="has the data of another volume"):
        await harness.kind.unmount(volume)
    with pytest.raises(VolumeError, match="has the data of another volume"):
        await harness.kind.unmount_device(device)

    assert harness.storage.methods() == ["NodeStageVolume", "NodePublishVolume"]


@pytest.mark.parametrize("remove", [remove_directory, unlink])
def test_nothing_is_removed_through_a_link(tmp_path, outside, remove):
    before = content(outside)
    (tmp_path / "volume").symlink_to(outside)

    for name in ("globalmount", "vol_data.json"):
        with pytest.raises(VolumeError, match="symbolic link, or not a directory"):
            remove(tmp_path, tmp_path / "volume" / name)

    assert content(outside) == before
    assert remove(tmp_path, tmp_path / "missing" / "name") is None
