"""Tests for the lookup of the kinds of volumes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nodeagent.contracts.persistent_volumes import MountRequest, VolumeSpec
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import PluginError, VolumeError
from nodeagent.model.persistent_volume import PersistentVolume
from nodeagent.model.pod import Pod, Volume
from nodeagent.testing import make_pod
from nodeagent_plugins.volumes.kinds import Kinds


@pytest.mark.parametrize(
    ("field", "source"), [("iscsi", {"iqn": "i"}), ("fc", {"lun": 1}), ("scaleIO", {"system": "s"})]
)
def test_unsupported_persistent_volume_names_its_type(field: str, source: dict[str, object]) -> None:
    spec = {field: source, "nodeAffinity": {"required": {}}, "mountOptions": ["ro"], "storageClassName": "slow"}
    volume = msgspec.convert({"metadata": {"name": "pv-1"}, "spec": spec}, PersistentVolume)

    with pytest.raises(VolumeError) as raised:
        Kinds([], []).of(VolumeSpec("pv-1", Volume(name="data"), volume))
    assert str(raised.value) == (
        'failed to get Plugin from volumeSpec for volume "pv-1" err=no volume plugin matched: '
        f"type {field} is not supported on this node"
    )


class Scratch:
    name = "example.org~scratch"

    def supports(self, volume: Volume) -> bool:
        return volume.empty_dir is not None


class Other(Scratch):
    name = "example.org~other"


def test_replaced_kind_keeps_its_volumes_and_a_new_one_takes_precedence() -> None:
    old, new, other = Scratch(), Scratch(), Other()
    kinds = Kinds([old], [])  # type: ignore[list-item]
    adapter = kinds.adapted[0]

    kinds.replace([old], [new, other], lambda kind: ["default/web"])  # type: ignore[list-item]

    assert adapter.adapts(new)  # type: ignore[arg-type]
    assert [kind.name for kind in kinds.adapted] == [other.name, old.name]
    assert kinds.adapted[1] is adapter


def test_removed_kind_with_volumes_in_use_stays() -> None:
    old = Scratch()
    kinds = Kinds([old], [])  # type: ignore[list-item]

    with pytest.raises(VolumeError, match=r"pods use volumes of kind example\.org~scratch: default/web"):
        kinds.replace([old], [], lambda kind: ["default/web"])  # type: ignore[list-item]

    assert [kind.name for kind in kinds.adapted] == [old.name]
    kinds.replace([old], [], lambda kind: [])  # type: ignore[list-item]
    assert kinds.adapted == []


class Broken(Scratch):
    name = "example.org~broken"

    def supports(self, volume: Volume) -> bool:
        raise PluginError("broken", "volume_kind.supports failed: TypeError()")


def test_failing_kind_affects_only_volumes_without_another_kind() -> None:
    kinds = Kinds([Broken(), Scratch()], [])  # type: ignore[list-item]
    scratch, other = ({"name": "v", "emptyDir": {}}, {"name": "v", "iscsi": {"iqn": "i"}})

    found = kinds.of(VolumeSpec("v", msgspec.convert(scratch, Volume)))

    assert found.name == Scratch.name
    with pytest.raises(VolumeError) as raised:
        kinds.of(VolumeSpec("v", msgspec.convert(other, Volume)))
    assert str(raised.value) == (
        "volumes of type iscsi are not supported on this node; plugin broken: volume_kind.supports failed: TypeError()"
    )


class Drivers:
    """A kind of FlexVolumes; records the volumes that are set up."""

    name = "example.org~drivers"

    def __init__(self) -> None:
        self.volumes: list[Volume] = []

    def supports(self, volume: Volume) -> bool:
        return volume.flex_volume is not None

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        self.volumes.append(volume)
        return MountedVolume(volume.name, str(directory))


async def test_persistent_volume_of_a_driver_has_the_form_of_a_volume_of_a_pod(tmp_path: Path) -> None:
    kind, pod = Drivers(), make_pod()
    spec = {"flexVolume": {"driver": "acme/disk", "fsType": "ext4"}}
    persistent = msgspec.convert({"metadata": {"name": "pv-1"}, "spec": spec}, PersistentVolume)
    inline = msgspec.convert({"name": "v", "flexVolume": {"driver": "acme/inline"}}, Volume)
    adapter = Kinds([kind], []).adapted[0]  # type: ignore[list-item]

    for source in (VolumeSpec("pv-1", Volume(name="data"), persistent), VolumeSpec("v", inline)):
        await adapter.mount(MountRequest(pod, source, tmp_path))

    assert [volume.flex_volume.driver for volume in kind.volumes if volume.flex_volume is not None] == [
        "acme/disk",
        "acme/inline",
    ]
