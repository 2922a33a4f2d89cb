"""Local PersistentVolumes: directories and block devices of this node."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base import identity
from nodeagent.base.mounts.points import remove_empty_directory
from nodeagent.contracts.events import EventType
from nodeagent.contracts.persistent_volumes import (
    DeviceOnDisk,
    MountRequest,
    VolumeMode,
    VolumeOnDisk,
    VolumeSpec,
)
from nodeagent.contracts.volume_ownership import change_group
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import UncertainVolumeError, VolumeError
from nodeagent.model.meta import ObjectReference
from nodeagent_plugins.in_tree_volumes.blocking import in_own_thread
from nodeagent_plugins.in_tree_volumes.formatting import FileSystemMismatch, Formatter
from nodeagent_plugins.in_tree_volumes.mounter import LinuxMounter, Mounter, remove_mount_point
from nodeagent_plugins.in_tree_volumes.options import mount_options

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

_DEFAULT_FILE_SYSTEM = "ext4"


class LocalVolumes:
    """Implements :class:`~nodeagent.contracts.persistent_volumes.DeviceVolumeKind` for ``local``.

    A directory is bind-mounted for each pod. A block device is mounted once on the node, formatted if it is empty, and
    bind-mounted for each pod; with the mode ``Block``, pods use the device itself, which is held open.
    """

    supports_block = True

    def __init__(
        self, context: CgroupsContext, mounter: Mounter | None = None, formatter: Formatter | None = None
    ) -> None:
        names = identity.current()
        self.name = f"{names.label_domain}~local-volume"
        self._plugin_name = names.label("local-volume")
        self._context, self._mounter = context, mounter or LinuxMounter()
        self._formatter = formatter or Formatter(self._mounter)
        self._devices = context.root_dir / "plugins" / names.label_domain / "local-volume" / "mounts"
        self._maps = context.root_dir / "plugins" / self.name / "volumeDevices"

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.persistent_volume is not None and spec.persistent_volume.spec.local is not None

    def plugin_name(self, spec: VolumeSpec) -> str:
        return self._plugin_name

    def unique_name(self, spec: VolumeSpec) -> str:
        return f"{self._plugin_name}/{spec.name}"

    async def mount_device(self, request: MountRequest) -> DeviceOnDisk:
        """Mount a block device on the node; directories need no such step.

        :raises VolumeError: the source cannot be mounted.
        """
        spec = request.spec
        staged = self._devices / spec.name
        try:
            device = await in_own_thread(self._stage, spec, staged)
        except FileSystemMismatch as error:
            reference = ObjectReference(kind="PersistentVolume", name=spec.name, uid=_uid(spec), api_version="v1")
            self._context.recorder.record(reference, EventType.WARNING, "FailedMountOnFilesystemMismatch", str(error))
            raise
        except OSError as error:
            raise VolumeError(str(error)) from error
        return DeviceOnDisk(self.unique_name(spec), spec.name, staged, spec.mode, device)

    async def unmount_device(self, device: DeviceOnDisk) -> None:
        """Unmount a block device; the source is never changed.

        :raises VolumeError: it is still in use.
        """
        await in_own_thread(self._release, device.path)

    def devices_on_disk(self) -> Sequence[DeviceOnDisk]:
        try:
            names = sorted(entry.name for entry in os.scandir(self._devices))
        except FileNotFoundError:
            return []
        paths = ((name, self._devices / name) for name in names)
        return [
            DeviceOnDisk(f"{self._plugin_name}/{name}", name, path, device_path=self._mounter.source(path))
            for name, path in paths
        ]

    async def mount(self, request: MountRequest) -> MountedVolume:
        """Bind-mount the volume for a pod, or link the device.

        :raises VolumeError: the volume cannot be mounted.
        """
        spec, directory, maps = request.spec, request.directory, self._maps / request.spec.name
        try:
            if spec.mode is VolumeMode.BLOCK:
                path = str(directory)
                await in_own_thread(self._map, spec, directory, maps / request.pod.uid)
                return MountedVolume(
                    spec.volume.name, path, spec.read_only, device_path=path, global_map_path=str(maps)
                )
            new = await in_own_thread(self._bind, spec, directory)
            # An earlier attempt may have been interrupted between the bind and the group.
            if new or not (request.remount or request.reconstructed):
                await self._apply_group(request)
        except OSError as error:
            raise VolumeError(str(error)) from error
        return MountedVolume(spec.volume.name, str(directory), spec.read_only, selinux_relabel=not spec.read_only)

    async def unmount(self, volume: VolumeOnDisk) -> None:
        """Remove the bind mount or link of a pod; the source is never changed.

        :raises VolumeError: the volume is still in use.
        """
        if volume.mode is VolumeMode.BLOCK:
            await in_own_thread(self._unmap, self._maps / volume.name / volume.pod_uid)
        await in_own_thread(self._release, volume.directory)

    def reconstruct(self, pod_uid: str, directory: Path, mode: VolumeMode) -> VolumeOnDisk:
        name = directory.name
        return VolumeOnDisk(pod_uid, name, directory, mode, f"{self._plugin_name}/{name}")

    # Blocking work

    def _stage(self, spec: VolumeSpec, staged: Path) -> str:
        """Mount a block device with a file system; return its path, empty for other volumes."""
        source = _source(spec)
        if spec.mode is VolumeMode.BLOCK or not stat.S_ISBLK(_type(source)):
            return ""
        if self._mounter.mounted(staged):
            return str(source)
        staged.mkdir(mode=0o750, parents=True, exist_ok=True)
        assert spec.persistent_volume is not None and spec.persistent_volume.spec.local is not None
        file_system = spec.persistent_volume.spec.local.fs_type or _DEFAULT_FILE_SYSTEM
        options = mount_options(spec.persistent_volume, *(["ro"] if spec.read_only else []))
        try:
            self._formatter.mount(source, staged, file_system, options, read_only=spec.read_only)
        except VolumeError:
            remove_mount_point(staged)
            raise
        return str(source)

    def _bind(self, spec: VolumeSpec, directory: Path) -> bool:
        """Bind-mount the directory or the mounted device; return whether it was not mounted before."""
        if self._mounter.mounted(directory):
            return False
        source = _source(spec)
        if stat.S_ISBLK(_type(source)):
            source = self._devices / spec.name
            if not self._mounter.mounted(source):
                raise VolumeError(f"block device of volume {spec.name} is not mounted at {source}")
        assert spec.persistent_volume is not None
        directory.mkdir(mode=0o750, exist_ok=True)
        options = mount_options(spec.persistent_volume, *(["ro"] if spec.read_only else []))
        try:
            self._mounter.bind(source, directory, options)
        except OSError:
            remove_mount_point(directory)
            raise
        return True

    def _map(self, spec: VolumeSpec, link: Path, mapped: Path) -> None:
        """Link the device for a pod, and keep it open: another disk must not get its number while the pod uses it.

        :raises UncertainVolumeError: the device may be mapped.
        """
        source = _source(spec)
        if not stat.S_ISBLK(_type(source)):
            raise VolumeError(f"path {source} is not a block device, but the volume has volumeMode Block")
        device = source.resolve()
        _link(device, link)  # First: after a crash, the link names the volume.
        try:
            mapped.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            if not _same_device(mapped, device):
                self._mounter.release(mapped)
                self._mounter.unmount(mapped)
                mapped.touch(mode=0o750)
                self._mounter.bind(device, mapped, ())
            self._mounter.hold(mapped, read_only=spec.read_only)
        except OSError as error:
            raise UncertainVolumeError(f"failed to map device {device} to {mapped}: {error}") from error

    def _unmap(self, mapped: Path) -> None:
        try:
            self._mounter.release(mapped)
            self._mounter.unmount(mapped)
            mapped.unlink(missing_ok=True)
        except OSError as error:
            raise VolumeError(f"failed to unmap device {mapped}: {error}") from error
        remove_empty_directory(mapped.parent)

    def _release(self, path: Path) -> None:
        try:
            if path.is_symlink():
                path.unlink()
                return
            self._mounter.unmount(path)
        except OSError as error:
            raise VolumeError(f"unmount {path}: {error.strerror}") from error
        remove_mount_point(path)

    def _is_shared(self, spec: VolumeSpec, directory: Path) -> bool:
        """Return whether another pod has mounted the volume."""
        source = _source(spec)
        if stat.S_ISBLK(_type(source)):
            source = self._devices / spec.name
        return bool(self._mounter.other_binds(source, directory))

    # fsGroup

    async def _apply_group(self, request: MountRequest) -> None:
        """Change the group of the volume, unless another pod has mounted it."""
        context, spec, directory = request.pod.spec.security_context, request.spec, request.directory
        group = context.fs_group if context is not None else None
        if group is None or spec.read_only:
            return
        if await in_own_thread(self._is_shared, spec, directory):
            found = (await in_own_thread(directory.stat)).st_gid
            if found != group:
                note = (
                    f"The requested fsGroup is {group}, but the volume {spec.name} has GID {found}. "
                    "The volume may not be shareable."
                )
                self._context.recorder.record(request.pod.reference(), EventType.WARNING, "AlreadyMountedVolume", note)
            return
        plugin = self._plugin_name
        try:
            await change_group(self._context, request.pod, directory, group, run=in_own_thread, plugin=plugin)
        except OSError as error:
            await in_own_thread(self._release, directory)
            raise VolumeError(f"applyFSGroup failed for vol {spec.name}: {error}") from error


def _source(spec: VolumeSpec) -> Path:
    """Return the path of the volume.

    :raises VolumeError: it contains ``..``.
    """
    assert spec.persistent_volume is not None and spec.persistent_volume.spec.local is not None
    path = spec.persistent_volume.spec.local.path
    if ".." in Path(path).parts or not path.startswith("/"):
        raise VolumeError(f"invalid path: {path} must be absolute and not contain '..'")
    return Path(path)


def _type(source: Path) -> int:
    """Return the mode of a directory or block device. Blocking.

    :raises VolumeError: it is something else, or does not exist.
    """
    try:
        mode = source.stat().st_mode
    except OSError as error:
        raise VolumeError(f'path "{source}" does not exist: {error.strerror}') from error
    if not (stat.S_ISDIR(mode) or stat.S_ISBLK(mode)):
        raise VolumeError("only directory and block device are supported")
    return mode


def _link(device: Path, link: Path) -> None:
    """Replace the pod's link by one to the device."""
    if link.is_symlink():
        if link.readlink() == device:
            return
        link.unlink()
    link.symlink_to(device)


def _same_device(mapped: Path, device: Path) -> bool:
    """Return whether *device* is mounted at *mapped*."""
    try:
        status = mapped.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISBLK(status.st_mode) and status.st_rdev == device.stat().st_rdev


def _uid(spec: VolumeSpec) -> str:
    return spec.persistent_volume.metadata.uid if spec.persistent_volume is not None else ""
