"""Mount system calls. Blocking; every function raises :class:`OSError` with the kernel's error."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from nodeagent.base.libc import last_error, libc

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_REMOUNT, MS_NOATIME, MS_NODIRATIME = 0x20, 0x400, 0x800
MS_BIND, MS_REC, MS_SHARED, MS_RELATIME = 0x1000, 0x4000, 0x100000, 0x200000
_UMOUNT_NOFOLLOW, _MNT_FORCE = 0x8, 0x1
_FLAGS = {
    "ro": MS_RDONLY,
    "nosuid": MS_NOSUID,
    "nodev": MS_NODEV,
    "noexec": MS_NOEXEC,
    "sync": 0x10,
    "mand": 0x40,
    "dirsync": 0x80,
    "noatime": MS_NOATIME,
    "nodiratime": MS_NODIRATIME,
    "relatime": MS_RELATIME,
    "strictatime": 0x1000000,
    "lazytime": 0x2000000,
}
_CLEARED = {
    "rw": MS_RDONLY,
    "suid": MS_NOSUID,
    "dev": MS_NODEV,
    "exec": MS_NOEXEC,
    "async": 0x10,
    "atime": MS_NOATIME,
    "diratime": MS_NODIRATIME,
}
_IGNORED = {"defaults", "bind", "auto", "noauto", "nofail", "_netdev", "norelatime"}
# Flags in the result of statvfs; a remount that omits one of them would clear it.
_RETAINED = {
    os.ST_RDONLY: MS_RDONLY,
    os.ST_NOSUID: MS_NOSUID,
    os.ST_NODEV: MS_NODEV,
    os.ST_NOEXEC: MS_NOEXEC,
    os.ST_NOATIME: MS_NOATIME,
    os.ST_NODIRATIME: MS_NODIRATIME,
    os.ST_RELATIME: MS_RELATIME,
}


def mount(source: str, target: Path, file_system: str, options: Iterable[str] = ()) -> None:
    """Mount a file system whose type needs no helper executable.

    :param source: the device or name of the file system.
    :param target: an existing directory.
    :param file_system: the type, such as ``tmpfs``.
    :param options: as in ``mount -o``, such as ``ro`` and ``size=1M``.
    """
    flags, data = parse_options(options)
    _call(source, target, file_system, flags, ",".join(data))


def bind(source: Path, target: Path, options: Iterable[str] = (), *, recursive: bool = False) -> None:
    """Bind-mount *source* at *target*; with options such as ``ro``, the bind is remounted with their flags.

    Options of the file system, such as ``size=1M``, do not apply to a bind and are ignored. If the flags cannot be
    set, the bind is unmounted again.

    :param source: an existing file or directory; a symbolic link is followed.
    :param target: an existing file or directory of the same type.
    :param options: as in ``mount -o``.
    :param recursive: also bind the mounts below *source*.
    """
    flags, _ = parse_options(options)
    _call(str(source), target, "", MS_BIND | (MS_REC if recursive else 0), "")
    if not flags:
        return
    try:
        _call("", target, "", MS_REMOUNT | MS_BIND | flags | _retained(target, options), "")
    except OSError:
        with contextlib.suppress(OSError):
            unmount(target)
        raise


def unmount(target: Path, *, force: bool = False) -> bool:
    """Unmount the topmost mount at *target*: not lazily, and never through a symbolic link.

    :param target: the mount point.
    :param force: abort requests to a server that does not respond (NFS).
    :returns: false if nothing is mounted there, or the path does not exist.
    :raises OSError: with ``EBUSY`` if the mount is in use.
    """
    if libc().umount2(os.fsencode(target), _UMOUNT_NOFOLLOW | (_MNT_FORCE if force else 0)) == 0:
        return True
    error = last_error(str(target))
    if error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
        return False
    raise error


def make_shared(directory: Path) -> None:
    """Make *directory* a shared mount, so that mounts below it propagate to containers and back.

    A directory that is not a mount point is first bind-mounted on itself.

    :param directory: an existing directory.
    """
    try:
        _call("", directory, "", MS_SHARED | MS_REC, "")
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _call(str(directory), directory, "", MS_BIND | MS_REC, "")
        _call("", directory, "", MS_SHARED | MS_REC, "")


def parse_options(options: Iterable[str]) -> tuple[int, list[str]]:
    """Return the flags of the system call, and the options that the file system interprets.

    :param options: as in ``mount -o``, in order.
    """
    flags, data = 0, []
    for option in options:
        if option in _FLAGS:
            flags |= _FLAGS[option]
        elif option in _CLEARED:
            flags &= ~_CLEARED[option]
        elif option and option not in _IGNORED:
            data.append(option)
    return flags, data


def _retained(target: Path, options: Iterable[str]) -> int:
    """Return the flags that the mount has and that no option clears."""
    current = os.statvfs(target).f_flag
    flags = sum(flag for status, flag in _RETAINED.items() if current & status)
    for option in options:
        flags &= ~_CLEARED.get(option, 0)
    return flags


def _call(source: str, target: Path, file_system: str, flags: int, data: str) -> None:
    device, kind, options = (os.fsencode(text) if text else None for text in (source, file_system, data))
    if libc().mount(device, os.fsencode(target), kind, ctypes.c_ulong(flags), options) != 0:
        raise last_error(str(target))
