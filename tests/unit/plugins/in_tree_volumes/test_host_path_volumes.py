"""Tests for PersistentVolumes with a path of the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodeagent.contracts.persistent_volumes import MountRequest, VolumeSpec
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import VolumeError
from nodeagent.model.persistent_volume import PersistentVolume
from nodeagent.model.pod import Volume
from nodeagent.testing import make_pod
from nodeagent.testing.contracts import PersistentVolumeKindContract
from nodeagent_plugins.in_tree_volumes.host_path import HostPathVolumes


def pv_spec(path: Path, **spec: Any) -> VolumeSpec:
    wire = {
        "metadata": {"name": "pv-1"},
        "spec": {"hostPath": {"path": str(path), **spec.pop("host_path", {})}, **spec},
    }
    return VolumeSpec("pv-1", Volume(name="data"), msgspec.convert(wire, PersistentVolume), read_only=True)


class TestHostPath(PersistentVolumeKindContract):
    @pytest.fixture
    def kind(self) -> HostPathVolumes:
        return HostPathVolumes()

    @pytest.fixture
    def spec(self, tmp_path: Path) -> VolumeSpec:
        return pv_spec(tmp_path)


async def mount(spec: VolumeSpec) -> MountedVolume:
    return await HostPathVolumes().mount(MountRequest(make_pod(), spec, Path("/nonexistent")))


async def test_path_is_used_without_a_mount(tmp_path: Path) -> None:
    assert await mount(pv_spec(tmp_path)) == MountedVolume("data", str(tmp_path), readonly=True)


async def test_mount_options_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(VolumeError, match="mount options are not supported for this volume type"):
        await mount(pv_spec(tmp_path, mountOptions=["ro"]))


async def test_path_must_match_its_type(tmp_path: Path) -> None:
    with pytest.raises(VolumeError, match="hostPath type check failed"):
        await mount(pv_spec(tmp_path, host_path={"type": "File"}))
