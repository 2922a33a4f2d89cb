"""PersistentVolumes with a path of the node, used without a mount."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nodeagent.base import host_path, identity
from nodeagent.contracts.persistent_volumes import MOUNT_OPTIONS, MountRequest, VolumeMode, VolumeOnDisk, VolumeSpec
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import VolumeError


class HostPathVolumes:
    """Implements :class:`~nodeagent.contracts.persistent_volumes.PersistentVolumeKind` for ``hostPath``.

    A volume has no directory on the node, so nothing is unmounted or removed.
    """

    def __init__(self) -> None:
        names = identity.current()
        self.name = f"{names.label_domain}~host-path"
        self._plugin_name = names.label("host-path")

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.persistent_volume is not None and spec.persistent_volume.spec.host_path is not None

    def plugin_name(self, spec: VolumeSpec) -> str:
        return self._plugin_name

    async def mount(self, request: MountRequest) -> MountedVolume:
        pv = request.spec.persistent_volume
        assert pv is not None and pv.spec.host_path is not None
        if pv.spec.mount_options:
            raise VolumeError("mount options are not supported for this volume type", reason=MOUNT_OPTIONS)
        source = pv.spec.host_path
        if source.type:
            try:
                await asyncio.to_thread(host_path.check_host_path, Path(source.path), source.type)
            except host_path.HostPathError as error:
                raise VolumeError(str(error)) from error
        return MountedVolume(request.spec.volume.name, source.path, request.spec.read_only)

    async def unmount(self, volume: VolumeOnDisk) -> None:
        """Do nothing; the path belongs to the node."""

    def reconstruct(self, pod_uid: str, directory: Path, mode: VolumeMode) -> VolumeOnDisk:
        raise VolumeError(f"hostPath volumes have no directory: {directory}")
