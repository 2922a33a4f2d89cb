"""Tests for local PersistentVolumes on a block device: a loop device of a file."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from nodeagent.base.mounts.loop_devices import find_loops
from nodeagent.base.mounts.table import read_mounts
from nodeagent.contracts.persistent_volumes import MountRequest, VolumeMode, VolumeOnDisk, VolumeSpec
from nodeagent.model.persistent_volume import PersistentVolume
from nodeagent.model.pod import Volume
from nodeagent.testing import make_context, make_pod
from nodeagent_plugins.in_tree_volumes.local import LocalVolumes
from nodeagent_plugins.volumes.mount_operations import check_unused

pytestmark = pytest.mark.integration


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    command = ["losetup", "--find", "--show", str(image)]
    device = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    yield Path(device)
    subprocess.run(["losetup", "--detach", device], check=True)


def request(root: Path, disk: Path, mode: VolumeMode) -> MountRequest:
    wire = {"metadata": {"name": "pv"}, "spec": {"local": {"path": str(disk)}, "volumeMode": mode.value}}
    pod, parent = make_pod(), "volumes" if mode is VolumeMode.FILESYSTEM else "volumeDevices"
    directory = root / "pods" / pod.uid / parent / "kubernetes.io~local-volume/pv"
    directory.parent.mkdir(parents=True)
    return MountRequest(
        pod, VolumeSpec("pv", Volume(name="v"), msgspec.convert(wire, PersistentVolume), mode=mode), directory
    )


async def test_block_device_is_held_open_until_it_is_unmapped(tmp_path: Path, disk: Path) -> None:
    kind, desired = LocalVolumes(make_context(tmp_path)), request(tmp_path, disk, VolumeMode.BLOCK)
    for _ in range(2):
        mounted = await kind.mount(desired)
    held = Path(mounted.global_map_path) / desired.pod.uid
    assert Path(mounted.device_path).resolve() == disk and len(find_loops(held)) == 1

    await LocalVolumes(make_context(tmp_path)).unmount(
        VolumeOnDisk(desired.pod.uid, "pv", desired.directory, VolumeMode.BLOCK)
    )
    assert find_loops(held) == [] and not held.exists() and not desired.directory.is_symlink()
    assert disk.exists()


async def test_file_system_of_a_block_device_is_released_after_a_restart(tmp_path: Path, disk: Path) -> None:
    kind, desired = LocalVolumes(make_context(tmp_path)), request(tmp_path, disk, VolumeMode.FILESYSTEM)
    staged = await kind.mount_device(desired)
    mounted = await kind.mount(desired)
    Path(mounted.host_path, "file").write_text("kept")

    restarted = LocalVolumes(make_context(tmp_path))
    (found,) = restarted.devices_on_disk()
    assert (found.path, found.device_path) == (staged.path, str(disk)) == (staged.path, staged.device_path)
    await restarted.unmount(VolumeOnDisk(desired.pod.uid, "pv", desired.directory))
    await restarted.unmount_device(found)
    check_unused(found.device_path)
    assert not [each.path for each in read_mounts() if each.path.startswith(str(tmp_path))]
