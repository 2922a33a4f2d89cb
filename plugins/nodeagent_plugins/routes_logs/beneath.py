"""Safe opening of files under a directory: neither paths nor links can leave it.

The kernel resolves the path atomically (``openat2``). Without that system call the path is resolved one component
at a time and every link is rejected. A link with an absolute target, such as those of ``/var/log/containers`` to
``/var/log/pods``, is opened by its real path under the directory, without following links. Only regular files and
directories are opened, because pipes can block and devices can have side effects.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path

from nodeagent.base.libc import last_error, libc

_SYS_OPENAT2 = 437  # The same number on every architecture.
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_NO_OPENAT2 = frozenset({errno.ENOSYS, errno.EPERM, errno.E2BIG})
_TRIES = 8


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: Path, relative: str, *, links: bool = True) -> int:
    """Return a descriptor for reading *relative* under *root*; the caller closes it.

    :param links: follow symbolic links that remain under *root*.
    :raises OSError: the path is missing, leaves *root*, or is neither a regular file nor a directory.
    """
    if "\0" in relative:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), relative)
    name = relative.strip("/") or "."
    base = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            found = _resolve(base, name, links)
        except OSError as error:
            if not links or error.errno not in (errno.EXDEV, errno.ELOOP):
                raise
            found = _resolve(base, _real_name(root, name), links=False)
    finally:
        os.close(base)
    try:
        mode = os.fstat(found).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), relative)
        return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(found)


def _real_name(root: Path, name: str) -> str:
    """Return the target of a link relative to *root*; resolved before the open, so it does not grant access.

    :raises OSError: the target is missing or outside of *root*.
    """
    home, target = os.path.realpath(root), os.path.realpath(root / name, strict=True)
    if ".." in name.split("/") or os.path.commonpath([home, target]) != home:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
    return os.path.relpath(target, home)


def _resolve(base: int, name: str, links: bool) -> int:
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | (0 if links else _RESOLVE_NO_SYMLINKS)
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, resolve)
    for _ in range(_TRIES):
        found = int(libc().syscall(_SYS_OPENAT2, base, os.fsencode(name), ctypes.byref(how), ctypes.sizeof(how)))
        if found >= 0:
            return found
        error = last_error(name)
        if error.errno in _NO_OPENAT2:
            return walk(base, name)
        if error.errno != errno.EAGAIN:  # A concurrent rename.
            raise error
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)


def walk(base: int, name: str) -> int:
    """Return a descriptor (``O_PATH``) for *name* below *base* without following links or ``..``.

    :raises OSError: the path is missing, or contains a link or ``..``.
    """
    here = os.dup(base)
    for part in name.split("/"):
        if part in ("", "."):
            continue
        try:
            if part == "..":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        finally:
            os.close(here)
        if stat.S_ISLNK(os.fstat(below).st_mode):
            os.close(below)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        here = below
    return here
