"""Tests for local PersistentVolumes."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.persistent_volumes import MountRequest, VolumeMode, VolumeOnDisk, VolumeSpec
from nodeagent.errors import UncertainVolumeError, VolumeError
from nodeagent.testing import FakeRecorder, make_context, make_pod
from nodeagent.testing.contracts import PersistentVolumeKindContract
from nodeagent_plugins.in_tree_volumes import local as module
from nodeagent_plugins.in_tree_volumes.formatting import Formatter
from nodeagent_plugins.in_tree_volumes.local import LocalVolumes

from .fake_mounter import FakeMounter, pv_spec


class Commands:
    """Commands of the host; ``results`` contains exit code and output by name."""

    def __init__(self) -> None:
        self.results: dict[str, tuple[int, str]] = {"blkid": (2, "")}
        self.calls: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> tuple[int, str]:
        self.calls.append(list(command))
        return self.results.get(command[0], (0, ""))


@pytest.fixture
def mounter() -> FakeMounter:
    return FakeMounter()


@pytest.fixture
def commands() -> Commands:
    return Commands()


@pytest.fixture
def recorder() -> FakeRecorder:
    return FakeRecorder()


@pytest.fixture
def kind(tmp_path: Path, mounter: FakeMounter, commands: Commands, recorder: FakeRecorder) -> LocalVolumes:
    return LocalVolumes(make_context(tmp_path, recorder=recorder), mounter, Formatter(mounter, commands))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    path.mkdir()
    (path / "kept").write_text("kept")
    return path


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that looks like a block device."""
    path = tmp_path / "device"
    path.touch()
    real = module._type
    monkeypatch.setattr(module, "_type", lambda each: stat.S_IFBLK if each == path else real(each))
    return path


class TestLocal(PersistentVolumeKindContract):
    @pytest.fixture
    def kind(self, tmp_path: Path, mounter: FakeMounter) -> LocalVolumes:
        return LocalVolumes(make_context(tmp_path), mounter)

    @pytest.fixture
    def spec(self, source: Path) -> VolumeSpec:
        return local(source)


def local(path: Path, *, fs_type: str | None = None, **spec: Any) -> VolumeSpec:
    return pv_spec({"local": {"path": str(path), "fsType": fs_type}}, **spec)


def request_of(spec: VolumeSpec, tmp_path: Path, uid: str = "uid-web", **pod: Any) -> MountRequest:
    directory = tmp_path / "pods" / uid / "volumes" / "kubernetes.io~local-volume" / spec.name
    directory.parent.mkdir(parents=True, exist_ok=True)
    return MountRequest(make_pod(uid=uid, **pod), spec, directory)


async def test_directory_is_bound_and_its_content_survives(
    kind: LocalVolumes, mounter: FakeMounter, source: Path, tmp_path: Path
) -> None:
    request = request_of(local(source, mountOptions=["noatime"]), tmp_path)
    mounted = await kind.mount(request)
    assert mounter.mounts == {request.directory: (str(source), "bind", "noatime")}
    assert mounted.host_path == str(request.directory) and not mounted.readonly

    await kind.unmount(VolumeOnDisk("uid-web", "pv-1", request.directory))
    assert mounter.mounts == {} and not request.directory.exists() and (source / "kept").exists()


async def test_read_only_claim_is_bound_read_only(
    kind: LocalVolumes, mounter: FakeMounter, source: Path, tmp_path: Path
) -> None:
    annotations = {"volume.beta.kubernetes.io/mount-options": "noexec,noatime"}
    request = request_of(local(source, read_only=True, annotations=annotations, mountOptions=["sync"]), tmp_path)
    assert (await kind.mount(request)).readonly
    assert mounter.mounts[request.directory][2:] == ("noatime", "noexec", "ro")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/mnt/../etc", "must be absolute and not contain '..'"),
        ("disk", "must be absolute"),
        ("/nonexistent/disk", "does not exist"),
        ("/dev/null", "only directory and block device are supported"),
    ],
)
async def test_invalid_path_is_rejected(kind: LocalVolumes, tmp_path: Path, path: str, text: str) -> None:
    request = request_of(local(Path(path)), tmp_path)
    with pytest.raises(VolumeError, match=text):
        await kind.mount(request)
    assert not request.directory.exists()


async def test_failed_bind_leaves_no_directory(
    kind: LocalVolumes, mounter: FakeMounter, source: Path, tmp_path: Path
) -> None:
    mounter.fails = OSError(22, "Invalid argument")
    request = request_of(local(source), tmp_path)
    with pytest.raises(VolumeError, match="Invalid argument"):
        await kind.mount(request)
    assert not request.directory.exists() and (source / "kept").exists()


async def test_busy_or_filled_directory_is_left_alone(
    kind: LocalVolumes, mounter: FakeMounter, source: Path, tmp_path: Path
) -> None:
    request = request_of(local(source), tmp_path)
    await kind.mount(request)
    volume = kind.reconstruct("uid-web", request.directory, VolumeMode.FILESYSTEM)
    mounter.busy.add(request.directory)
    with pytest.raises(VolumeError, match="busy"):
        await kind.unmount(volume)
    assert request.directory in mounter.mounts

    mounter.busy.clear()
    (request.directory / "hidden").write_text("data")
    with pytest.raises(VolumeError, match="not empty"):
        await kind.unmount(volume)
    assert (request.directory / "hidden").read_text() == "data"


async def test_second_pod_with_another_group_is_reported(
    kind: LocalVolumes, recorder: FakeRecorder, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    monkeypatch.setattr(
        "nodeagent.contracts.volume_ownership.apply_fs_group", lambda path, group, **_: groups.append(group)
    )
    await kind.mount(request_of(local(source), tmp_path, "a", security_context={"fsGroup": 1234}))
    await kind.mount(request_of(local(source), tmp_path, "b", security_context={"fsGroup": 4321}))

    assert groups == [1234]
    (event,) = recorder.events
    group = source.stat().st_gid
    text = f"The requested fsGroup is 4321, but the volume pv-1 has GID {group}. The volume may not be shareable."
    assert (event.reason, event.note) == ("AlreadyMountedVolume", text)


async def test_empty_device_is_formatted_once_and_bound(
    kind: LocalVolumes, mounter: FakeMounter, commands: Commands, device: Path, tmp_path: Path
) -> None:
    request = request_of(local(device), tmp_path)
    staged = await kind.mount_device(request)
    assert ["mkfs.ext4", "-F", "-m0", str(device)] in commands.calls
    assert mounter.mounts == {staged.path: (str(device), "ext4")}
    count = len(commands.calls)
    await kind.mount_device(request)
    await kind.mount(request)
    assert len(commands.calls) == count and mounter.mounts[request.directory][0] == str(staged.path)
    assert kind.devices_on_disk() == [staged] and staged.unique_name == kind.unique_name(request.spec)

    await kind.unmount(kind.reconstruct("uid-web", request.directory, VolumeMode.FILESYSTEM))
    for _ in range(2):
        await kind.unmount_device(staged)
    assert mounter.mounts == {} and kind.devices_on_disk() == []


@pytest.mark.parametrize(
    ("blkid", "text"),
    [
        ((0, "TYPE=xfs"), 'failed to mount the volume as "ext4", it already contains xfs'),
        ((0, "PTTYPE=gpt"), "it contains unknown data, probably partitions"),
        ((8, "ambivalent result"), "blkid: exit status 8: ambivalent result"),
        ((127, "blkid: executable file not found"), "executable file not found"),
    ],
)
async def test_device_that_may_contain_data_is_not_formatted(
    kind: LocalVolumes,
    mounter: FakeMounter,
    commands: Commands,
    recorder: FakeRecorder,
    device: Path,
    tmp_path: Path,
    blkid: tuple[int, str],
    text: str,
) -> None:
    commands.results["blkid"] = blkid
    with pytest.raises(VolumeError, match=text):
        await kind.mount_device(request_of(local(device), tmp_path))
    assert [call[0] for call in commands.calls] == ["blkid"] and mounter.mounts == {}
    reasons = [event.reason for event in recorder.events]
    assert reasons == (["FailedMountOnFilesystemMismatch"] if "xfs" in blkid[1] else [])


async def test_read_only_claim_of_an_empty_device_is_rejected(
    kind: LocalVolumes, commands: Commands, device: Path, tmp_path: Path
) -> None:
    with pytest.raises(VolumeError, match="cannot mount unformatted disk"):
        await kind.mount_device(request_of(local(device, read_only=True), tmp_path))
    assert len(commands.calls) == 1


@pytest.mark.parametrize(
    ("code", "mounts", "logged"),
    [
        (0, True, ""),
        (1, True, "Device has errors which were corrected by fsck"),
        (4, False, ""),
        (8, True, "Failed to check file system"),
        (127, True, ""),
    ],
)
async def test_file_system_is_checked_before_the_mount(
    kind: LocalVolumes,
    mounter: FakeMounter,
    commands: Commands,
    device: Path,
    tmp_path: Path,
    code: int,
    mounts: bool,
    logged: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    commands.results |= {"blkid": (0, f"DEVNAME={device}\nTYPE=ext4\n"), "fsck": (code, "report")}
    request = request_of(local(device), tmp_path)
    if mounts:
        await kind.mount_device(request)
    else:
        with pytest.raises(VolumeError, match=r"'fsck' found errors on device .* but could not correct them: report"):
            await kind.mount_device(request)
    assert bool(mounter.mounts) is mounts
    assert [text for text in caplog.messages if "fsck" in text or "check" in text] == ([logged] if logged else [])


async def test_block_volume_is_a_link_to_the_device(
    kind: LocalVolumes, mounter: FakeMounter, commands: Commands, device: Path, tmp_path: Path
) -> None:
    request = request_of(local(device, mode=VolumeMode.BLOCK), tmp_path)
    await kind.mount_device(request)
    for _ in range(2):
        mounted = await kind.mount(request)
    assert mounted.device_path == str(request.directory)
    held = tmp_path / "plugins/kubernetes.io~local-volume/volumeDevices/pv-1/uid-web"
    assert request.directory.readlink() == device and commands.calls == []
    assert list(mounter.mounts) == [held] and mounter.held == {held: False}
    assert mounted.global_map_path == str(held.parent)

    volume = VolumeOnDisk("uid-web", "pv-1", request.directory, VolumeMode.BLOCK)
    mounter.busy.add(held)
    with pytest.raises(VolumeError, match="failed to unmap device"):
        await kind.unmount(volume)
    assert request.directory.is_symlink()
    mounter.busy.clear()
    await kind.unmount(volume)
    assert not os.path.lexists(request.directory) and device.exists()
    assert mounter.mounts == {} and mounter.held == {} and not held.parent.exists()


async def test_link_to_another_device_is_replaced(kind: LocalVolumes, device: Path, tmp_path: Path) -> None:
    request = request_of(local(device, mode=VolumeMode.BLOCK), tmp_path)
    request.directory.symlink_to("/dev/before")
    await kind.mount(request)
    assert request.directory.readlink() == device


async def test_block_volume_that_cannot_be_held_may_be_mapped(
    kind: LocalVolumes, mounter: FakeMounter, device: Path, tmp_path: Path
) -> None:
    request = request_of(local(device, mode=VolumeMode.BLOCK), tmp_path)
    mounter.fails = OSError(errno.EBUSY, "no free loop device")
    with pytest.raises(UncertainVolumeError, match="no free loop device"):
        await kind.mount(request)
    assert request.directory.is_symlink()  # Names the volume after a restart.


async def test_directory_with_mode_block_is_rejected(kind: LocalVolumes, source: Path, tmp_path: Path) -> None:
    with pytest.raises(VolumeError, match="is not a block device"):
        await kind.mount(request_of(local(source, mode=VolumeMode.BLOCK), tmp_path))


@pytest.mark.parametrize("name", ["disk & touch outside", "$(touch outside)", "a;touch outside", "-o remount", "a\nb"])
async def test_characters_of_a_path_are_never_interpreted(
    kind: LocalVolumes, mounter: FakeMounter, commands: Commands, tmp_path: Path, name: str
) -> None:
    disk = tmp_path / name
    disk.mkdir()
    request = request_of(local(disk), tmp_path)

    await kind.mount(request)

    assert mounter.mounts[request.directory][0] == str(disk)
    assert commands.calls == []
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    ("is_mounted", "fields", "applied"),
    [
        (False, {"remount": True}, 1),
        (False, {}, 1),
        (True, {}, 1),
        (True, {"remount": True}, 0),
        (True, {"reconstructed": True}, 0),
    ],
)
async def test_group_is_applied_unless_the_volume_is_known_to_have_it(
    kind: LocalVolumes,
    mounter: FakeMounter,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_mounted: bool,
    fields: dict[str, bool],
    applied: int,
) -> None:
    request = replace(request_of(local(source), tmp_path), **fields)
    if is_mounted:
        mounter.mounts[request.directory] = (str(source),)
    groups: list[MountRequest] = []

    async def apply_group(_self: LocalVolumes, request: MountRequest) -> None:
        groups.append(request)

    monkeypatch.setattr(LocalVolumes, "_apply_group", apply_group)
    await kind.mount(request)
    assert len(groups) == applied
