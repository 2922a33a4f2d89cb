"""System calls that the standard library lacks; each raises ``OSError`` with a description of the attempt."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_NOATIME = 1024
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MS_SHARED = 1 << 20
MS_RELATIME = 1 << 21
MS_STRICTATIME = 1 << 24

MNT_DETACH = 2

MOUNT_ATTR_RDONLY = 1
MOUNT_ATTR_NOSUID = 2
MOUNT_ATTR_NODEV = 4
MOUNT_ATTR_NOEXEC = 8
MOUNT_ATTR_IDMAP = 1 << 20

PR_SET_KEEPCAPS = 8
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47

_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "s390x": 217, "ppc64le": 203, "armv7l": 218}
# The numbers of system calls since Linux 5.2 are the same on all architectures.
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_CAPABILITY_VERSION = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount *source* at *target*."""
    given = (ctypes.c_char_p(os.fsencode(text)) if text else None for text in (source, target, kind))
    options = ctypes.c_char_p(os.fsencode(data)) if data else None
    first, second, third = given
    _check(_libc.mount(first, second, third, ctypes.c_ulong(flags), options), f"mount {target}")


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    """Lazily unmount *target*."""
    _check(_libc.umount2(os.fsencode(target), flags), f"unmount {target}")


def clone_mount(source: str, target: str, attributes: int, user_namespace: int = -1) -> None:
    """Bind-mount *source* with all mounts below it at *target*, with *attributes* on each of them.

    :param user_namespace: descriptor of a user namespace whose mapping applies to the owners of files; the file
        systems must support it.
    """
    if user_namespace >= 0:
        attributes |= MOUNT_ATTR_IDMAP
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_RECURSIVE
    tree = _libc.syscall(_SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(source), ctypes.c_uint(flags))
    _check(tree, f"open mount {source}")
    try:
        settings = (ctypes.c_uint64 * 4)(attributes, 0, 0, max(user_namespace, 0))
        how = ctypes.c_uint(_AT_EMPTY_PATH | _AT_RECURSIVE)
        size = ctypes.c_size_t(ctypes.sizeof(settings))
        changed = _libc.syscall(_SYS_MOUNT_SETATTR, tree, b"", how, settings, size)
        _check(changed, f"set attributes of mount {source}")
        moved = _libc.syscall(
            _SYS_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)
        )
        _check(moved, f"mount {target}")
    finally:
        os.close(tree)


def unshare(flags: int) -> None:
    """Move this process to new namespaces."""
    _check(_libc.unshare(flags), "create namespaces")


def join(path: str, kind: int = 0) -> None:
    """Join the namespace at *path*."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(descriptor, kind), f"join namespace {path}")
    finally:
        os.close(descriptor)


def pivot_root(new: str, old: str) -> None:
    """Make *new* the root; the previous root is moved to *old*."""
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(f"pivot_root is not supported on {os.uname().machine}")
    _check(_libc.syscall(number, os.fsencode(new), os.fsencode(old)), f"change the root to {new}")


def prctl(option: int, *arguments: int) -> None:
    """Set an attribute of this process."""
    words = [ctypes.c_ulong(word) for word in (*arguments, 0, 0, 0, 0)[:4]]
    _check(_libc.prctl(option, *words), f"set process option {option}")


def set_hostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), f"set the host name {name}")


def set_capabilities(effective: int, permitted: int, inheritable: int) -> None:
    """Set the capability sets of this process, each a bit mask."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    words = [mask >> shift & 0xFFFFFFFF for shift in (0, 32) for mask in (effective, permitted, inheritable)]
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)(*words)), "set capabilities")


def _check(result: int, attempt: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{attempt}: {os.strerror(number)}")
