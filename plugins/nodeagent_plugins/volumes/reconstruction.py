"""Volumes that an earlier process left on this node, found without any API object. Blocking; changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import field

from nodeagent.base.mounts.table import MountEntry, read_mounts_below
from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.persistent_volumes import (
    DeviceOnDisk,
    DeviceVolumeKind,
    PersistentVolumeKind,
    VolumeMode,
    VolumeOnDisk,
)
from nodeagent_plugins.volumes.kinds import Kinds

VOLUMES, VOLUME_DEVICES = "volumes", "volumeDevices"
_MODES = {VOLUMES: VolumeMode.FILESYSTEM, VOLUME_DEVICES: VolumeMode.BLOCK}


class FoundVolumes(MutableStruct):
    """Volumes and devices on disk."""

    volumes: list[tuple[PersistentVolumeKind, VolumeOnDisk]] = field(default_factory=list)
    devices: list[tuple[DeviceVolumeKind, DeviceOnDisk]] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)
    """Directories of volumes that cannot be identified, with the reason; empty for an unknown kind."""


def find_volumes(pods: Path, kinds: Kinds) -> FoundVolumes:
    """Return the volumes of all pods and the staged devices.

    :param pods: the directory of the pods.
    """
    found = FoundVolumes()
    for pod in _directories(pods):
        find_pod_volumes(pod, kinds, found)
    for kind in kinds.persistent:
        if isinstance(kind, DeviceVolumeKind):
            try:
                found.devices.extend((kind, device) for device in kind.devices_on_disk())
            except Exception as error:  # A kind without a result must not prevent the pods of others.
                found.failed[Path(kind.name)] = str(error) or type(error).__name__
    return found


def find_pod_volumes(pod: Path, kinds: Kinds, found: FoundVolumes) -> None:
    """Add the volumes of one pod to *found*.

    :param pod: the pod's directory, named after its UID.
    """
    for directory, mode in volume_directories(pod):
        try:
            kind = kinds.owner(directory)
            if kind is None:
                found.failed[directory] = ""
                continue
            found.volumes.append((kind, kind.reconstruct(pod.name, directory, mode)))
        except Exception as error:  # As above.
            found.failed[directory] = str(error) or type(error).__name__


def volume_directories(pod: Path) -> list[tuple[Path, VolumeMode]]:
    """Return the directories ``volumes/<kind>/<name>`` and ``volumeDevices/<kind>/<name>`` of a pod.

    Mount points are not examined, because their server may not respond. For blocks, links are listed as well.
    """
    found: list[tuple[Path, VolumeMode]] = []
    for name, mode in _MODES.items():
        for kind in _directories(pod / name):
            entries = _directories(kind) if mode is VolumeMode.FILESYSTEM else _entries(kind)
            found.extend((entry, mode) for entry in entries)
    return found


def mounts_in(directory: Path) -> list[MountEntry]:
    """Return the mounts at and below *directory*, deepest first."""
    return read_mounts_below(directory)


def _directories(parent: Path) -> Iterator[Path]:
    yield from (Path(e.path) for e in _scan(parent) if e.is_dir(follow_symlinks=False))


def _entries(parent: Path) -> Iterator[Path]:
    yield from (Path(entry.path) for entry in _scan(parent))


def _scan(parent: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(parent) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
