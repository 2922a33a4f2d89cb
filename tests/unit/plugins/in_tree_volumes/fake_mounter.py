"""Mounter without privileges, and volumes of the kinds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from nodeagent.contracts.persistent_volumes import VolumeMode, VolumeSpec
from nodeagent.model.persistent_volume import PersistentVolume
from nodeagent.model.pod import Volume


class FakeMounter:
    """Records mounts.

    :ivar mounts: source and options by mount point.
    :ivar busy: mount points that are in use.
    :ivar fails: error of the next mounts.
    """

    def __init__(self) -> None:
        self.mounts: dict[Path, tuple[str, ...]] = {}
        self.busy: set[Path] = set()
        self.fails: OSError | None = None
        self.forced: list[Path] = []
        self.held: dict[Path, bool] = {}
        """Read-only state of the devices that are held open."""

    def bind(self, source: Path, target: Path, options: Sequence[str]) -> None:
        self.mount(str(source), target, "bind", options)

    def mount(self, source: str, target: Path, file_system: str, options: Sequence[str]) -> None:
        if self.fails is not None:
            raise self.fails
        self.mounts[target] = (source, file_system, *options)

    def unmount(self, target: Path, *, force: bool = False) -> None:
        if target in self.busy and not force:
            raise OSError(16, os.strerror(16), str(target))
        if force:
            self.forced.append(target)
        self.mounts.pop(target, None)

    def query(self, target: Path) -> None:
        assert target in self.mounts

    def mounted(self, target: Path) -> bool:
        return target in self.mounts

    def listed(self, target: Path) -> bool:
        return target in self.mounts

    def source(self, target: Path) -> str:
        return self.mounts[target][0] if target in self.mounts else ""

    def hold(self, device: Path, *, read_only: bool) -> None:
        if self.fails is not None:
            raise self.fails
        assert device in self.mounts
        self.held[device] = read_only

    def release(self, device: Path) -> None:
        self.held.pop(device, None)

    def other_binds(self, source: Path, target: Path) -> list[str]:
        return [str(at) for at, what in self.mounts.items() if what[0] == str(source) and at != target]


def pv_spec(
    source: dict[str, Any], *, read_only: bool = False, mode: VolumeMode = VolumeMode.FILESYSTEM, **spec: Any
) -> VolumeSpec:
    """Return the volume ``data`` with the PersistentVolume ``pv-1``."""
    annotations = spec.pop("annotations", None)
    wire = {"metadata": {"name": "pv-1", "annotations": annotations}, "spec": {**source, **spec}}
    return VolumeSpec(
        "pv-1", Volume(name="data"), msgspec.convert(wire, PersistentVolume), read_only=read_only, mode=mode
    )
