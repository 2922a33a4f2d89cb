"""Directories of volumes: created without following symbolic links, and removed only if empty. Blocking."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodeagent.base.mounts.points import is_mount_point
from nodeagent.errors import VolumeError
from nodeagent_plugins.csi.names import PREFIX

_OPEN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_directory(root: Path, path: Path, *, create: bool = False) -> Iterator[int]:
    """Provide a descriptor of *path*, resolved below *root* without following symbolic links.

    :param root: a directory that only root can change; symbolic links in its path are followed.
    :param path: a path below *root*.
    :param create: create missing directories with mode 0750.
    :raises OSError: a component is missing, a symbolic link or not a directory.
    """
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.relative_to(root).parts:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o750, dir_fd=descriptor)
            inner = os.open(name, _OPEN, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def make_directory(root: Path, path: Path) -> None:
    """Create *path* and its parents below *root*, with mode 0750.

    :raises VolumeError: a component is a symbolic link, or not a directory.
    """
    try:
        with open_directory(root, path, create=True):
            pass
    except OSError as error:
        raise VolumeError(f"{PREFIX}failed to create dir {path}: {_reason(error)}") from error


def remove_directory(path: Path) -> None:
    """Remove *path* if it is an empty directory; a missing one is ignored.

    :raises VolumeError: it is a mount point, is not empty, or is not a directory.
    """
    try:
        path.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise VolumeError(f"{PREFIX}failed to remove dir [{path}]: {_reason(error)}") from error


def remove_mount_directory(mount: Path, data: Path) -> None:
    """Remove the path that a driver mounted, the data file and their directory.

    Nothing is removed while something is mounted, and a directory with content is left unchanged.

    :raises VolumeError: the path is a mount point or has content.
    """
    try:
        if is_mount_point(mount):
            raise VolumeError(f"{PREFIX}[{mount}] is still a mount point")
    except OSError as error:
        raise VolumeError(f"{PREFIX}failed to inspect [{mount}]: {_reason(error)}") from error
    remove_directory(mount)
    unlink(data)
    remove_directory(data.parent)


def unlink(path: Path) -> None:
    """Remove a file or symbolic link; a missing one is ignored.

    :raises VolumeError: the path cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise VolumeError(f"{PREFIX}failed to remove file [{path}]: {_reason(error)}") from error


def check_mounted(root: Path, path: Path) -> None:
    """Check that a driver has created a directory at *path*, and that no component is a symbolic link.

    :raises VolumeError: it has not.
    """
    try:
        with open_directory(root, path):
            pass
    except OSError as error:
        raise VolumeError(f"{PREFIX}driver reported success, but [{path}] is unusable: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and error.filename is not None):
        return "symbolic link, or not a directory"
    return os.strerror(error.errno) if error.errno else str(error)
