"""Project quotas: space that the kernel accounts to the project ID of a directory tree (ext4, XFS).

Files inherit the project ID of their directory, so the usage of a tree is known without reading it. The file system
must be mounted with project quotas (``prjquota``).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodeagent.base.libc import last_error, libc
from nodeagent.base.structs import Struct

_XATTR = struct.Struct("=5I8x")
"""``struct fsxattr``: flags, extent size, number of extents, project ID, size of copied extents."""
_GET_XATTR, _SET_XATTR = 0x801C581F, 0x401C5820
_INHERIT = 0x200
_USAGE = struct.Struct("=8QI4x")
"""``struct if_dqblk``: block limits, used bytes, inode limits, used inodes, times, valid fields."""
_Usage = ctypes.c_char * _USAGE.size
_USED_BYTES, _USED_INODES = 2, 5
_BLOCK_LIMITS_VALID = 1
_GET_QUOTA_OF_PROJECT, _SET_QUOTA_OF_PROJECT = (0x800007 << 8) | 2, (0x800008 << 8) | 2
BLOCK_BYTES = 1024
"""Unit of the limits of a project."""
_QUOTACTL_FD = 443
"""Number of the system call, equal on all architectures; since Linux 5.14."""


class ProjectUsage(Struct, frozen=True):
    """Space that is accounted to a project, on one file system."""

    bytes: int = 0
    inodes: int = 0


def own_project(directory: Path) -> int:
    """Return the project ID of *directory*, 0 if it has none or that of its parent directory. Blocks briefly.

    :raises OSError: the directory does not exist, or the file system does not support project IDs.
    """
    project = _read(directory)[3]
    return 0 if project == _read(directory.parent)[3] else project


def set_project(directory: Path, project: int) -> None:
    """Set the project ID of an empty directory, which its future content inherits. Blocks briefly.

    :raises OSError: the file system does not support project IDs, or the process lacks the permission.
    """
    with _opened(directory) as descriptor:
        inherit_project(descriptor, project)


def inherit_project(descriptor: int, project: int) -> None:
    """Set the project ID of an open directory, which its future content inherits; idempotent. Blocks briefly.

    :raises OSError: the file system does not support project IDs, or the process lacks the permission.
    """
    flags, extent, extents, present, copied = _attributes(descriptor)
    if not flags & _INHERIT or present != project:
        _ioctl(descriptor, _SET_XATTR, bytearray(_XATTR.pack(flags | _INHERIT, extent, extents, project, copied)))


def limit_project(descriptor: int, project: int, blocks: int) -> None:
    """Limit the space of *project* on the file system of an open directory. Blocks briefly.

    :param blocks: limit in units of :data:`BLOCK_BYTES`; 0 removes it.
    :raises OSError: project quotas are disabled on the file system (``ESRCH``), the kernel is too old (``ENOSYS``), or
        the process lacks the permission.
    """
    limits = _USAGE.pack(blocks, blocks, 0, 0, 0, 0, 0, 0, _BLOCK_LIMITS_VALID)
    _quotactl(descriptor, _SET_QUOTA_OF_PROJECT, project, _Usage.from_buffer_copy(limits))


def project_usage(directory: Path, project: int) -> ProjectUsage:
    """Return the usage of *project* on the file system of *directory*. Blocks briefly.

    :raises OSError: project quotas are disabled on the file system (``ESRCH``), or the kernel is too old (``ENOSYS``).
    """
    content = _Usage()
    with _opened(directory) as descriptor:
        try:
            _quotactl(descriptor, _GET_QUOTA_OF_PROJECT, project, content)
        except FileNotFoundError:  # XFS reports unused projects as missing.
            return ProjectUsage()
    fields = _USAGE.unpack(content.raw)
    return ProjectUsage(fields[_USED_BYTES], fields[_USED_INODES])


def _read(directory: Path) -> tuple[int, ...]:
    with _opened(directory) as descriptor:
        return _attributes(descriptor)


def _attributes(descriptor: int) -> tuple[int, ...]:
    content = bytearray(_XATTR.size)
    _ioctl(descriptor, _GET_XATTR, content)
    return _XATTR.unpack(content)


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _ioctl(descriptor: int, command: int, content: bytearray) -> None:
    fcntl.ioctl(descriptor, command, content, True)


def _quotactl(descriptor: int, command: int, identifier: int, content: ctypes.Array[ctypes.c_char]) -> None:
    if libc().syscall(_QUOTACTL_FD, descriptor, ctypes.c_uint(command), ctypes.c_uint(identifier), content):
        raise last_error()
