"""Group ownership of volumes (``fsGroup``).

Containers of other pods may change the tree while it is walked, so every step uses the descriptor of the parent
directory and never follows a symbolic link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

_READ_WRITE, _READ_ONLY = 0o660, 0o440
_DIRECTORY = 0o110
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def apply_fs_group(
    directory: Path,
    group: int,
    *,
    read_only: bool = False,
    only_on_mismatch: bool = False,
    progress: Callable[[int], None] | None = None,
    below: Path | None = None,
) -> None:
    """Change the group of a tree and grant the group access; each directory after its content, the root last.

    Errors of single files are ignored, because files may be removed during the walk.

    :param directory: the root of the volume.
    :param group: ID of the group.
    :param read_only: grant read access only.
    :param only_on_mismatch: skip the tree if its root already matches (``OnRootMismatch``).
    :param progress: called with the number of processed files after each of them.
    :param below: a parent of *directory*, below which no component of the path may be a symbolic link.
    :raises OSError: a directory cannot be read, or the root is a symbolic link.
    """
    bits = _READ_ONLY if read_only else _READ_WRITE
    root = _open_root(directory, below)
    try:
        if only_on_mismatch and _root_matches(root, group, bits):
            return
        if stat.S_ISLNK(os.fstat(root).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(directory))
        if stat.S_ISDIR(os.fstat(root).st_mode):
            _walk(os.open(".", _OPEN_DIRECTORY, dir_fd=root), group, bits, progress)
        with contextlib.suppress(OSError):
            _change(root, group, bits)
    finally:
        os.close(root)


def _open_root(directory: Path, below: Path | None) -> int:
    if below is None:
        return os.open(directory, _OPEN_PATH)
    descriptor = os.open(below, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in directory.relative_to(below).parts:
        try:
            inner = os.open(name, _OPEN_PATH, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _walk(directory: int, group: int, bits: int, progress: Callable[[int], None] | None) -> None:
    """Change everything below the open *directory*, whose descriptor is closed; uses few descriptors at any depth."""
    processed = 0
    stack = [(_identity(directory), _names(directory))]
    try:
        while True:
            names = stack[-1][1]
            if names:
                inside = _open_directory(directory, names[-1])
                if inside is None:
                    _change_entry(directory, names.pop(), group, bits)
                    processed += 1
                    if progress is not None:
                        progress(processed)
                    continue
                os.close(directory)
                directory = inside
                stack.append((_identity(directory), _names(directory)))
                continue
            stack.pop()
            if not stack:
                return
            parent = os.open("..", _OPEN_DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = parent
            if _identity(directory) != stack[-1][0]:
                raise OSError(errno.ESTALE, "directory was moved while its group was changed")
            _change_entry(directory, stack[-1][1].pop(), group, bits)
            processed += 1
            if progress is not None:
                progress(processed)
    finally:
        os.close(directory)


def _open_directory(parent: int, name: str) -> int | None:
    """Return a descriptor, or ``None`` if *name* is not a directory now.

    :raises OSError: the directory cannot be read.
    """
    try:
        return os.open(name, _OPEN_DIRECTORY, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
            return None
        raise


def _change_entry(parent: int, name: str, group: int, bits: int) -> None:
    """Change one entry; errors are ignored, because the entry may have been removed."""
    with contextlib.suppress(OSError):
        opened = os.open(name, _OPEN_PATH, dir_fd=parent)
        try:
            if stat.S_ISLNK(os.fstat(opened).st_mode):
                os.chown(name, -1, group, dir_fd=parent, follow_symlinks=False)
            else:
                _change(opened, group, bits)
        finally:
            os.close(opened)


def _change(descriptor: int, group: int, bits: int) -> None:
    """Change group and mode of the file or directory that is open with ``O_PATH``."""
    # The path of the descriptor leads to the opened file, even if its name has been replaced.
    path, status = Path(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor)
    if status.st_gid != group:
        os.chown(path, -1, group)
        status = os.fstat(descriptor)  # The kernel clears bits of executables.
    desired = status.st_mode | bits
    if stat.S_ISDIR(status.st_mode):
        desired |= stat.S_ISGID | _DIRECTORY
    if desired != status.st_mode:
        path.chmod(stat.S_IMODE(desired))


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _root_matches(root: int, group: int, bits: int) -> bool:
    status = os.fstat(root)
    desired = bits | _DIRECTORY | stat.S_ISGID
    return stat.S_ISDIR(status.st_mode) and status.st_gid == group and status.st_mode & desired == desired


def _names(descriptor: int) -> list[str]:
    return sorted(os.listdir(descriptor), reverse=True)
