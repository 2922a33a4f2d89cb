"""Volume capabilities in requests. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent.model.persistent_volume import (
    READ_ONLY_MANY,
    READ_WRITE_MANY,
    READ_WRITE_ONCE,
    READ_WRITE_ONCE_POD,
)

if TYPE_CHECKING:
    from nodeagent.base.pluginproto import csi_pb2 as csi


def volume_capability(
    access_mode: str,
    *,
    multi_writer: bool,
    block: bool = False,
    fs_type: str = "",
    mount_flags: Sequence[str] = (),
    mount_group: int | None = None,
) -> csi.VolumeCapability:
    """Return the capability of a volume.

    :param access_mode: the first access mode of the PersistentVolume.
    :param multi_writer: the driver distinguishes single and multiple writers on a node.
    :param mount_group: ``fsGroup``, if the driver applies it.
    """
    from nodeagent.base.pluginproto import csi_pb2 as csi

    mode = getattr(csi.VolumeCapability.AccessMode, _mode(access_mode, multi_writer=multi_writer))
    capability = csi.VolumeCapability(access_mode=csi.VolumeCapability.AccessMode(mode=mode))
    if block:
        capability.block.SetInParent()
        return capability
    capability.mount.fs_type = fs_type
    capability.mount.mount_flags.extend(mount_flags)
    if mount_group is not None:
        capability.mount.volume_mount_group = str(mount_group)
    capability.mount.SetInParent()
    return capability


def _mode(access_mode: str, *, multi_writer: bool) -> str:
    """Return the name of the access mode in requests."""
    if access_mode == READ_WRITE_ONCE:
        return "SINGLE_NODE_MULTI_WRITER" if multi_writer else "SINGLE_NODE_WRITER"
    if access_mode == READ_WRITE_ONCE_POD:
        return "SINGLE_NODE_SINGLE_WRITER" if multi_writer else "SINGLE_NODE_WRITER"
    if access_mode == READ_ONLY_MANY:
        return "MULTI_NODE_READER_ONLY"
    if access_mode == READ_WRITE_MANY:
        return "MULTI_NODE_MULTI_WRITER"
    return "UNKNOWN"
