"""Removal of untrusted directory trees. Blocking."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

from nodeagent.base.mounts.points import is_mount_point

_MOUNTED = "a file system is mounted here"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def remove_tree(directory: Path) -> None:
    """Remove an untrusted tree; does nothing if it does not exist.

    Never follows a link, and uses constant stack and descriptors at any depth: directories are moved up to the root
    before they are emptied.
    """
    try:
        root = os.open(directory, _OPEN)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        directory.unlink(missing_ok=True)
        return
    try:
        remove_content(root, directory)
    finally:
        os.close(root)
    directory.rmdir()


def remove_content(root: int, directory: Path) -> None:
    """Remove the content of an open directory as :func:`remove_tree` does.

    :param root: descriptor of the directory.
    :param directory: its path, for messages.
    :raises OSError: with ``EBUSY`` if a file system or a bind is mounted below.
    """
    prefix, moved = f"..removed-{secrets.token_hex(8)}-", 0
    while names := _names(root):
        for name in names:
            if _unlink(name, root):
                continue
            inside = os.open(name, _OPEN, dir_fd=root)
            try:
                # A bind inside one file system has the same device number.
                if is_mount_point(Path(), dir_fd=inside):
                    raise OSError(errno.EBUSY, _MOUNTED, str(directory / name))
                for entry in _names(inside):
                    if not _unlink(entry, inside):
                        try:
                            os.rename(entry, f"{prefix}{moved}", src_dir_fd=inside, dst_dir_fd=root)
                        except OSError as error:
                            text = _MOUNTED if error.errno == errno.EBUSY else error.strerror
                            raise OSError(error.errno, text, str(directory / name / entry)) from error
                        moved += 1
            finally:
                os.close(inside)
            os.rmdir(name, dir_fd=root)


def _names(descriptor: int) -> list[str]:
    return os.listdir(descriptor)


def _unlink(name: str, parent: int) -> bool:
    """Remove a file or an empty directory; return whether it was removed."""
    if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError:
            return False
    else:
        os.unlink(name, dir_fd=parent)
    return True
