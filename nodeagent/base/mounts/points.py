"""Checks of mount points, and removal of directories that never crosses one."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from pathlib import Path

from nodeagent.base.libc import last_error, libc
from nodeagent.base.mounts.table import mounts_at, read_mounts

CORRUPTED = frozenset(
    {errno.ENOTCONN, errno.ESTALE, errno.EIO, errno.EACCES, errno.EHOSTDOWN, errno.EWOULDBLOCK, errno.ENODEV}
)
"""Errors of ``stat`` for a mount whose server or process is lost: it counts as mounted and has to be unmounted."""

_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _AT_NO_AUTOMOUNT, _AT_STATX_DONT_SYNC = -100, 0x100, 0x800, 0x4000
_ATTR_MOUNT_ROOT = 0x2000
_ATTRIBUTES, _ATTRIBUTES_MASK = 8, 56
_Statx = ctypes.c_char * 256
"""Created once: such a type is in a cycle with itself."""


def is_mount_point(path: Path, *, dir_fd: int | None = None) -> bool:
    """Return whether a file system or a bind is mounted at *path*; a symbolic link is not followed.

    Recognizes binds inside one file system. Attributes are not requested from a server; resolving a path on a server
    that does not respond may still block.

    :param path: a file or directory.
    :param dir_fd: descriptor of the directory to which *path* is relative; ``.`` is the directory itself.
    :returns: true also for a corrupted mount; false if the path does not exist.
    :raises OSError: the path cannot be examined for another reason.
    """
    try:
        attributes, known = _attributes(path, dir_fd)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return False
        if error.errno not in CORRUPTED and error.errno != errno.ENOSYS:
            raise
    else:
        if known & _ATTR_MOUNT_ROOT:
            return bool(attributes & _ATTR_MOUNT_ROOT)
    if dir_fd is not None:
        path = Path(f"/proc/self/fd/{dir_fd}").readlink() / path
    return bool(mounts_at(path, read_mounts()))


def is_corrupted(error: OSError) -> bool:
    """Return whether a failed ``stat`` indicates a mount whose server or process is lost.

    :param error: the error of the call.
    """
    return error.errno in CORRUPTED


def remove_empty_directory(path: Path) -> bool:
    """Remove *path* if it is an empty directory and not a mount point; never removes content.

    :param path: a directory.
    :returns: whether the path no longer exists.
    """
    with contextlib.suppress(FileNotFoundError):
        try:
            path.rmdir()
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise
            return False
    return True


def _attributes(path: Path, dir_fd: int | None) -> tuple[int, int]:
    """Return the attributes of *path*, and those that the kernel supports."""
    buffer = _Statx()
    flags = _AT_SYMLINK_NOFOLLOW | _AT_NO_AUTOMOUNT | _AT_STATX_DONT_SYNC
    if libc().statx(_AT_FDCWD if dir_fd is None else dir_fd, os.fsencode(path), flags, 0, buffer) != 0:
        raise last_error(str(path))
    attributes, mask = (struct.unpack_from("=Q", buffer, offset)[0] for offset in (_ATTRIBUTES, _ATTRIBUTES_MASK))
    return attributes, mask
