"""Tests for the lookup of the kinds of volumes."""

from __future__ import annotations

import msgspec
import pytest

from nodeagent.contracts.persistent_volumes import VolumeSpec
from nodeagent.errors import VolumeError
from nodeagent.model.persistent_volume import PersistentVolume
from nodeagent.model.pod import Volume
from nodeagent_plugins.volumes.kinds import Kinds


@pytest.mark.parametrize(
    ("field", "source"), [("iscsi", {"iqn": "i"}), ("fc", {"lun": 1}), ("scaleIO", {"system": "s"})]
)
def test_unsupported_persistent_volume_names_its_type(field: str, source: dict[str, object]) -> None:
    volume = msgspec.convert({"metadata": {"name": "pv-1"}, "spec": {field: source}}, PersistentVolume)

    with pytest.raises(VolumeError) as raised:
        Kinds([], []).of(VolumeSpec("pv-1", Volume(name="data"), volume))
    assert str(raised.value) == (
        'failed to get Plugin from volumeSpec for volume "pv-1" err=no volume plugin matched: '
        f"type {field} is not supported on this node"
    )
