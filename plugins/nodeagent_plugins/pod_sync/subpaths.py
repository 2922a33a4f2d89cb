"""Sub-paths of volumes (``subPath``) that cannot leave the volume.

A container that shares the volume can create symbolic links in it at any time. Therefore the sub-path is opened one
component at a time, and the open directory is bind-mounted on a path that containers cannot change; the runtime gets
that path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from nodeagent.base.mounts import calls
from nodeagent.errors import ContainerError, VolumeError

_CONFIG_ERROR = "CreateContainerConfigError"
_MAX_LINKS = 40

BindMount = Callable[[Path, Path], None]
"""Bind-mounts a source (can be ``/proc/self/fd/N``) with all mounts below it on a target; raises OSError."""


def check_subpath(path: str) -> None:
    """Reject an absolute path and one with ``..``.

    :raises ContainerError: the path is invalid.
    """
    if path.startswith("/"):
        raise ContainerError(f"subPath {path!r} must not be an absolute path", reason=_CONFIG_ERROR)
    if ".." in PurePosixPath(path).parts:
        raise ContainerError(f"subPath {path!r} must not contain '..'", reason=_CONFIG_ERROR)


def open_beneath(root: Path, path: str, *, create: bool) -> int:
    """Open *path* under *root* and return a descriptor that the caller closes.

    Relative symbolic links are followed if they remain under *root*; absolute ones are rejected.

    :param create: create missing directories with the mode of *root*.
    :raises OSError: the path is missing, or leaves *root* (``EXDEV``).
    """
    mode = stat.S_IMODE(root.stat().st_mode)
    parents = [os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
    pending = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    links = 0
    try:
        while pending:
            part = pending.pop()
            if part == "..":
                if len(parents) == 1:
                    raise OSError(errno.EXDEV, "path is outside of the volume", path)
                os.close(parents.pop())
                continue
            try:
                opened = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parents[-1])
            except FileNotFoundError:
                if not create or links:
                    raise
                _make_directory(part, mode, parents[-1])
                opened = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parents[-1])
            if stat.S_ISLNK(os.fstat(opened).st_mode):
                try:
                    target = os.readlink("", dir_fd=opened)
                finally:
                    os.close(opened)
                links += 1
                if target.startswith("/"):
                    raise OSError(errno.EXDEV, "path is outside of the volume", path)
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                pending.extend(step for step in reversed(target.split("/")) if step not in ("", "."))
                continue
            parents.append(opened)
        return os.dup(parents[-1])
    finally:
        for descriptor in parents:
            os.close(descriptor)


def bind_subpath(volume_path: str, path: str, target: Path, bind: BindMount | None = None, *, create: bool) -> str:
    """Bind-mount a sub-path of a volume on *target* and return the path for the runtime; idempotent.

    :raises ContainerError: the sub-path is unavailable.
    """
    try:
        opened = open_beneath(Path(volume_path), path, create=create)
        try:
            unmount(target)
            _mount_point(target, is_directory=stat.S_ISDIR(os.fstat(opened).st_mode))
            (bind or _bind)(Path(f"/proc/self/fd/{opened}"), target)
        finally:
            os.close(opened)
    except OSError as error:
        text = f"failed to prepare subPath {path!r} of {volume_path}: {error.strerror or error}"
        raise ContainerError(text, reason=_CONFIG_ERROR) from error
    return str(target)


def release_subpaths(root: Path) -> None:
    """Unmount and remove all sub-paths below *root*, ``<pod>/volume-subpaths``; idempotent.

    :raises VolumeError: a sub-path is still in use.
    """
    try:
        for volume in _entries(root):
            for container in _entries(volume):
                for part in _entries(container):
                    unmount(part)
                    part.rmdir() if part.is_dir() else part.unlink()
                container.rmdir()
            volume.rmdir()
        with contextlib.suppress(FileNotFoundError):
            root.rmdir()
    except OSError as error:
        raise VolumeError(f"remove {error.filename}: {error.strerror or error}") from error


def unmount(target: Path) -> None:
    """Unmount all mounts on *target*; does nothing if there is none.

    A mount in use is not detached, because the device below it could then be removed while it is written to.

    :raises OSError: the kernel returned an error, such as ``EBUSY``.
    """
    with contextlib.suppress(PermissionError):  # Without privileges nothing was mounted either.
        while calls.unmount(target):
            pass


def _bind(source: Path, target: Path) -> None:
    calls.bind(source, target, recursive=True)


def _mount_point(target: Path, *, is_directory: bool) -> None:
    """Create an empty directory or file at *target*, replacing the other type."""
    target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    if target.exists() and target.is_dir() is not is_directory:
        target.rmdir() if target.is_dir() else target.unlink()
    if is_directory:
        target.mkdir(mode=0o750, exist_ok=True)
    else:
        target.touch(mode=0o640)


def _make_directory(name: str, mode: int, parent: int) -> None:
    """Create a directory with the exact *mode*, because containers of any user write where the volume allows it."""
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        return
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.fchmod(made, mode)  # The umask has removed bits.
    finally:
        os.close(made)


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
