"""Devices of block volumes on this node: the bind that the agent holds open, and the link for containers. Blocking."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from nodeagent.base.mounts import loop_devices
from nodeagent.base.mounts.calls import bind, unmount
from nodeagent.base.mounts.points import is_mount_point
from nodeagent.errors import VolumeError
from nodeagent_plugins.csi.directories import make_directory, open_directory, remove_directory, unlink
from nodeagent_plugins.csi.names import PREFIX, BlockPaths


def resolve_device(path: Path) -> Path:
    """Return the block device that a driver has published at *path*.

    :raises VolumeError: it is not a block device.
    """
    try:
        real = Path(os.path.realpath(path, strict=True))
        mode = real.stat().st_mode
    except OSError as error:
        raise VolumeError(f"{PREFIX}failed to resolve device [{path}]: {error.strerror}") from error
    if not stat.S_ISBLK(mode):
        raise VolumeError(f"{PREFIX}driver reported success, but [{path}] is not a block device")
    return real


def map_device(root: Path, paths: BlockPaths, pod_uid: str, device: Path, link: Path, *, read_only: bool) -> None:
    """Bind *device* to the global map directory, hold it open, and link it for the pod.

    :raises VolumeError: a step failed.
    """
    mapped = paths.device(pod_uid)
    try:
        make_directory(root, paths.devices)
        if not _same_device(mapped, device):
            loop_devices.release(mapped)
            while unmount(mapped):
                pass
            _bind_device(root, device, mapped)
        _link(root, link, device)
        loop_devices.hold(mapped, read_only=read_only)
    except OSError as error:
        raise VolumeError(f"{PREFIX}failed to map device {device} to [{mapped}]: {error}") from error


def unmap_device(root: Path, paths: BlockPaths, pod_uid: str) -> None:
    """Release the device of a pod: the loop device, and the bind.

    :raises VolumeError: a step failed.
    """
    mapped = paths.device(pod_uid)
    try:
        loop_devices.release(mapped)
        while unmount(mapped):
            pass
    except OSError as error:
        raise VolumeError(f"{PREFIX}failed to unmap device [{mapped}]: {error}") from error
    unlink(root, mapped)


def remove_published(root: Path, path: Path) -> None:
    """Remove the path that the driver published, if the driver has left it.

    :raises VolumeError: something is still mounted there.
    """
    if not os.path.lexists(path):
        return
    if is_mount_point(path):
        raise VolumeError(f"{PREFIX}[{path}] is still a mount point after NodeUnpublishVolume")
    if path.is_dir() and not path.is_symlink():
        remove_directory(root, path)
    else:
        unlink(root, path)


def remove_volume(root: Path, paths: BlockPaths, data_name: str) -> None:
    """Remove the directories of a volume that no pod uses; only empty ones, and the data file last.

    :raises VolumeError: a directory is not empty, or a mount point.
    """
    for directory in (paths.publish_directory, paths.staging, paths.devices):
        remove_directory(root, directory)
    unlink(root, paths.data_directory / data_name)
    for directory in (paths.data_directory, paths.volume):
        remove_directory(root, directory)


def users(directory: Path) -> list[str]:
    """Return the names in *directory*; empty if it does not exist."""
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except FileNotFoundError:
        return []


def _same_device(mapped: Path, device: Path) -> bool:
    try:
        status = mapped.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISBLK(status.st_mode) and status.st_rdev == device.stat().st_rdev


def _bind_device(root: Path, device: Path, mapped: Path) -> None:
    """Bind *device* to a new file; neither the file nor a parent may be a symbolic link."""
    with open_directory(root, mapped.parent) as parent:
        with contextlib.suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(mapped.name, flags, 0o750, dir_fd=parent))
        file = os.open(mapped.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(mapped))
        bind(device, Path(f"/proc/self/fd/{file}"))
    finally:
        os.close(file)


def _link(root: Path, link: Path, device: Path) -> None:
    """Replace *link* atomically by a symbolic link to *device*."""
    aside = f".{link.name}.new"
    with open_directory(root, link.parent) as parent:
        with contextlib.suppress(OSError):
            if os.readlink(link.name, dir_fd=parent) == str(device):
                return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside, dir_fd=parent)
        os.symlink(device, aside, dir_fd=parent)
        os.rename(aside, link.name, src_dir_fd=parent, dst_dir_fd=parent)
