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


def remove_directory(root: Path, path: Path) -> None:
    """Remove *path* below *root* if it is an empty directory; a missing one is ignored.

    :raises VolumeError: it is a mount point, is not empty, is not a directory, or leads through a symbolic link.
    """
    try:
        with open_directory(root, path.parent) as parent:
            os.rmdir(path.name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise VolumeError(f"{PREFIX}failed to remove dir [{path}]: {_reason(error)}") from error


def remove_mount_directory(root: Path, mount: Path, data: str) -> None:
    """Remove the path that a driver mounted, the data file next to it and their directory.

    Nothing is removed while something is mounted, and a directory with content is left unchanged. Every step starts
    from the descriptor of the parent directory, because a driver may replace a directory by a symbolic link.

    :param root: the root directory of the agent.
    :param data: name of the data file.
    :raises VolumeError: the path is a mount point, has content, or leads through a symbolic link.
    """
    directory = mount.parent
    try:
        with open_directory(root, directory) as parent:
            if is_mount_point(Path(mount.name), dir_fd=parent):
                raise VolumeError(f"{PREFIX}[{mount}] is still a mount point")
            with _removal(mount), contextlib.suppress(FileNotFoundError):
                os.rmdir(mount.name, dir_fd=parent)
            with _removal(directory / data), contextlib.suppress(FileNotFoundError):
                os.unlink(data, dir_fd=parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise VolumeError(f"{PREFIX}failed to inspect [{mount}]: {_reason(error)}") from error
    remove_directory(root, directory)


@contextmanager
def _removal(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise VolumeError(f"{PREFIX}failed to remove [{path}]: {_reason(error)}") from error


def unlink(root: Path, path: Path) -> None:
    """Remove a file or symbolic link below *root*; a missing one is ignored.

    :raises VolumeError: the path cannot be removed, or leads through a symbolic link.
    """
    try:
        with open_directory(root, path.parent) as parent:
            os.unlink(path.name, dir_fd=parent)
    except FileNotFoundError:
        pass
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
