"""Tests for block volumes of CSI drivers; binds and loop devices of the kernel are replaced."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from nodeagent.base.mounts import loop_devices
from nodeagent.contracts.persistent_volumes import VolumeMode
from nodeagent.errors import TransientVolumeError, UncertainVolumeError, VolumeError
from nodeagent_plugins.csi import block_devices
from tests.csi_driver.service import EXPAND, STAGE


class Kernel:
    """Binds as files, and loop devices as a set."""

    def __init__(self, monkeypatch):
        self.loops, self.binds = set(), set()
        monkeypatch.setattr(block_devices, "bind", self._bind)
        monkeypatch.setattr(block_devices, "unmount", self._unmount)
        monkeypatch.setattr(block_devices, "resolve_device", self._resolve)
        monkeypatch.setattr(block_devices, "_same_device", lambda mapped, _device: mapped in self.binds)
        monkeypatch.setattr(loop_devices, "hold", lambda path, *, read_only: self.loops.add((path, read_only)))
        monkeypatch.setattr(loop_devices, "release", self._release)

    def _bind(self, _source, target):
        self.binds.add(target.resolve())

    def _resolve(self, path):
        assert path.exists()
        return path

    def _unmount(self, path):
        if path in self.binds:
            self.binds.discard(path)
            return True
        return False

    def _release(self, path):
        self.loops = {(held, ro) for held, ro in self.loops if held != path}


@pytest.fixture
def kernel(monkeypatch):
    return Kernel(monkeypatch)


@pytest.fixture
def request_(harness):
    return harness.request(harness.spec(mode=VolumeMode.BLOCK))


def block(harness, *parts):
    return harness.root.joinpath("plugins/kubernetes.io/csi/volumeDevices", *parts)


async def test_block_volume_is_mapped_and_unmapped(harness, kernel, request_):
    uid = request_.pod.uid

    device = await harness.kind.mount_device(request_)
    mapped = await harness.kind.mount(request_)

    assert device.path == block(harness, "staging", "pv-1") and device.mode is VolumeMode.BLOCK
    assert json.loads(block(harness, "pv-1", "data", "vol_data.json").read_text())["specVolID"] == "pv-1"
    stage, publish = harness.call("NodeStageVolume"), harness.call("NodePublishVolume")
    assert stage["volume_capability"] == {"block": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}
    assert publish["target_path"] == str(block(harness, "publish", "pv-1", uid))
    assert mapped.host_path == mapped.device_path == str(request_.directory)
    assert os.readlink(request_.directory) == publish["target_path"]
    assert kernel.loops == {(block(harness, "pv-1", "dev", uid), False)}
    with pytest.raises(VolumeError, match="is still referenced from other Pods"):
        await harness.kind.unmount_device(device)

    await harness.kind.unmount(harness.on_disk(request_))
    assert not os.path.lexists(request_.directory) and not kernel.loops and not kernel.binds
    await harness.kind.unmount_device(device)

    assert not block(harness, "pv-1").exists() and not device.path.exists()
    assert not harness.storage.all_staged() and not harness.kind.devices_on_disk()


async def test_failed_unpublish_keeps_the_link_of_the_pod(harness, kernel, request_):
    await harness.kind.mount_device(request_)
    await harness.kind.mount(request_)
    harness.faults.set("NodeUnpublishVolume", code="INTERNAL")

    with pytest.raises(VolumeError):
        await harness.kind.unmount(harness.on_disk(request_))

    volume = harness.kind.reconstruct(request_.pod.uid, request_.directory, VolumeMode.BLOCK)
    assert volume.unique_name == "kubernetes.io/csi/test.csi.example^volume-1"
    harness.faults.clear()
    await harness.kind.unmount(volume)
    await harness.kind.unmount(volume)


async def test_unregistered_driver_leaves_the_device_held(harness, kernel, request_):
    await harness.kind.mount_device(request_)
    await harness.kind.mount(request_)
    harness.drivers.remove("test.csi.example")

    with pytest.raises(TransientVolumeError):
        await harness.kind.unmount(harness.on_disk(request_))

    assert kernel.loops and kernel.binds


async def test_final_stage_error_removes_the_directories(harness, kernel, request_):
    harness.faults.set("NodeStageVolume", code="INVALID_ARGUMENT")

    with pytest.raises(VolumeError):
        await harness.kind.mount_device(request_)

    assert not block(harness, "pv-1").exists() and not block(harness, "staging", "pv-1").exists()


async def test_content_of_the_staging_path_is_never_removed(harness, kernel, request_):
    device = await harness.kind.mount_device(request_)
    (device.path / "file").write_text("data")

    with pytest.raises(VolumeError, match="failed to remove dir"):
        await harness.kind.unmount_device(device)

    assert (device.path / "file").read_text() == "data"
    assert [found.name for found in harness.kind.devices_on_disk()] == ["pv-1"]


async def test_lost_data_file_stops_unmap(harness, kernel, request_):
    await harness.kind.mount_device(request_)
    await harness.kind.mount(request_)
    block(harness, "pv-1", "data", "vol_data.json").unlink()

    with pytest.raises(VolumeError, match="unmounter failed to load volume data file"):
        await harness.kind.unmount(harness.on_disk(request_))
    assert kernel.loops


async def test_driver_that_publishes_no_device_is_rejected(harness, monkeypatch, tmp_path, request_):
    await harness.kind.mount_device(request_)
    (tmp_path / "outside").write_text("kept")
    harness.faults.set("NodePublishVolume", symlink=str(tmp_path / "outside"))

    with pytest.raises(UncertainVolumeError, match="is not a block device"):
        await harness.kind.mount(request_)

    await harness.kind.unmount(harness.on_disk(request_))
    assert (tmp_path / "outside").read_text() == "kept"


async def test_block_volume_is_expanded_at_its_device(make_harness, kernel):
    harness = await make_harness(capabilities=[STAGE, EXPAND])
    request = harness.request(harness.spec(mode=VolumeMode.BLOCK))
    await harness.kind.mount_device(request)
    await harness.kind.mount(request)

    assert await harness.kind.expand(harness.on_disk(request), request.spec, 2 << 20)

    assert harness.call("NodeExpandVolume")["volume_path"] == str(block(harness, "publish", "pv-1", request.pod.uid))


def test_loop_devices_are_found_by_backing_file(tmp_path):
    for name, backing in (("loop0", "/a"), ("loop1", "/b (deleted)"), ("loop2", "/bb")):
        directory = tmp_path / name / "loop"
        directory.mkdir(parents=True)
        (directory / "backing_file").write_text(f"{backing}\n")

    from pathlib import Path

    assert loop_devices.find_loops(Path("/b"), sysfs=tmp_path) == ["loop1"]
    assert loop_devices.find_loops(Path("/a"), sysfs=tmp_path) == ["loop0"]


def test_path_that_the_driver_left_is_removed(tmp_path, monkeypatch):
    mounted = set()
    monkeypatch.setattr(block_devices, "is_mount_point", mounted.__contains__)
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    for name in ("missing", "file", "directory", "link"):
        block_devices.remove_published(tmp_path, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]

    mounted.add(tmp_path / "kept")
    with pytest.raises(VolumeError, match="is still a mount point after NodeUnpublishVolume"):
        block_devices.remove_published(tmp_path, tmp_path / "kept")
    (tmp_path / "kept" / "file").touch()
    mounted.clear()
    with pytest.raises(VolumeError):
        block_devices.remove_published(tmp_path, tmp_path / "kept")


@pytest.mark.parametrize(
    ("code", "reconstructed", "kept"),
    [("INVALID_ARGUMENT", True, True), ("DEADLINE_EXCEEDED", False, True), ("INVALID_ARGUMENT", False, False)],
)
async def test_data_of_a_volume_that_may_be_staged_is_kept(harness, kernel, request_, code, reconstructed, kept):
    harness.faults.set("NodeStageVolume", code=code)

    with pytest.raises(VolumeError):
        await harness.kind.mount_device(replace(request_, reconstructed=reconstructed))

    assert block(harness, "pv-1").exists() is kept


@pytest.mark.parametrize("requested", [True, False])
async def test_driver_gets_the_pod_of_a_block_volume_on_request(harness, kernel, request_, requested):
    harness.put_driver(attachRequired=False, podInfoOnMount=requested)
    await harness.context.clock.settle()
    await harness.kind.mount_device(request_)
    await harness.kind.mount(request_)

    context = harness.call("NodePublishVolume").get("volume_context", {})
    assert ("csi.storage.k8s.io/pod.uid" in context) is requested


async def test_name_of_a_block_volume_must_be_a_file_name(harness, kernel):
    for name in ("..", "a/b"):
        request = harness.request(harness.spec(mode=VolumeMode.BLOCK))

        with pytest.raises(VolumeError, match="invalid volume name"):
            await harness.kind.mount_device(replace(request, spec=replace(request.spec, name=name)))
