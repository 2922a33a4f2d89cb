"""Directory trees of volumes: group ownership and removal. Blocking."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from nodeagent.base.removal import remove_tree

__all__ = ["apply_fs_group", "make_directories", "open_to_all", "remove_if_empty", "remove_tree"]

_READ_WRITE, _READ_ONLY = 0o660, 0o440
_DIRECTORY = 0o110


def make_directories(path: Path) -> None:
    """Create *path* and its missing parents without permissions for others."""
    for directory in reversed([path, *path.parents]):
        if not directory.exists():
            directory.mkdir(mode=0o750, exist_ok=True)


def open_to_all(directory: Path) -> None:
    """Grant all users read and write access to *directory*; set-group-ID and sticky bits remain."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & 0o777 != 0o777:
        directory.chmod(mode | 0o777)


def apply_fs_group(directory: Path, group: int, *, readonly: bool = False, only_on_mismatch: bool = False) -> None:
    """Change the group of a tree and grant the group access; the root is changed last.

    :param readonly: grant read access only.
    :param only_on_mismatch: skip the tree if its root already matches (``OnRootMismatch``).
    """
    bits = _READ_ONLY if readonly else _READ_WRITE
    if only_on_mismatch and _root_is_right(directory, group, bits):
        return
    for parent, directories, files in os.walk(directory, topdown=False):
        for name in (*files, *directories):
            path = Path(parent, name)
            # A directory is also visited as a parent; a link to a directory is not.
            if name in files or path.is_symlink():
                _give(path, group, bits)
        _give(Path(parent), group, bits)


def remove_if_empty(*directories: Path) -> None:
    """Remove the directories that are empty, in order."""
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()


def _give(path: Path, group: int, bits: int) -> None:
    os.chown(path, -1, group, follow_symlinks=False)
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return
    desired = mode | bits
    if stat.S_ISDIR(mode):
        desired |= stat.S_ISGID | _DIRECTORY
    path.chmod(stat.S_IMODE(desired))


def _root_is_right(directory: Path, group: int, bits: int) -> bool:
    status = directory.stat()
    desired = bits | _DIRECTORY | stat.S_ISGID
    return status.st_gid == group and status.st_mode & desired == desired
