"""Project quotas of XFS and ext4 with system calls. Blocking.

The file system must be mounted with the option ``prjquota`` (ext4 also needs the features ``project`` and ``quota``).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import platform
import struct
import zlib
from collections.abc import Collection

_GET_ATTRIBUTES, _SET_ATTRIBUTES = 0x801C581F, 0x401C5820
"""``FS_IOC_FSGETXATTR`` and ``FS_IOC_FSSETXATTR``."""
_ATTRIBUTES = struct.Struct("=IIIII8s")
_INHERIT = 0x200
_SET_QUOTA, _PROJECT_QUOTA, _BLOCK_LIMITS = 0x800008, 2, 1
_QUOTACTL_FD = 443
"""Number of ``quotactl_fd``, the same on all architectures."""
_LIMITS = struct.Struct("=QQQQQQQQI4x")
_BLOCK_BYTES = 1024
_UNSUPPORTED = frozenset(
    {errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOSYS, errno.ESRCH, errno.EINVAL, errno.ENOTSUP, errno.EPERM, errno.ENODEV}
)
_FIRST_ID = 0x4000_0000


class QuotaUnsupported(Exception):
    """The file system does not support project quotas, or was mounted without them."""


def project_id(name: str, used: Collection[int]) -> int:
    """Return an ID for a new project that no other volume uses. No I/O.

    :param name: name of the volume; the same name gets the same ID unless it is used.
    :param used: IDs of other volumes.
    """
    number = zlib.crc32(name.encode()) & (_FIRST_ID - 1)
    while _FIRST_ID + number in used:
        number = (number + 1) % _FIRST_ID
    return _FIRST_ID + number


def limit(directory: int, project: int, capacity: int) -> None:
    """Limit the size of everything below a directory; new files below inherit the project.

    :param directory: descriptor of the directory.
    :param project: ID of the project.
    :param capacity: limit in bytes.
    :raises QuotaUnsupported: the file system does not support this.
    :raises OSError: the limit cannot be set for another reason.
    """
    blocks = -(-capacity // _BLOCK_BYTES)
    # The limit first: without quotas, the directory is not changed.
    _set_quota(directory, project, blocks)
    attributes = bytearray(_ATTRIBUTES.size)
    try:
        fcntl.ioctl(directory, _GET_ATTRIBUTES, attributes)
        flags, *rest = _ATTRIBUTES.unpack(attributes)
        if not (flags & _INHERIT and rest[2] == project):
            rest[2] = project
            fcntl.ioctl(directory, _SET_ATTRIBUTES, _ATTRIBUTES.pack(flags | _INHERIT, *rest))
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            clear(directory, project)
            raise QuotaUnsupported(str(error)) from error
        raise


def clear(directory: int, project: int) -> None:
    """Remove the limit of a project; failures are ignored, because it no longer concerns any file."""
    with contextlib.suppress(QuotaUnsupported, OSError):
        _set_quota(directory, project, 0)


def _set_quota(directory: int, project: int, blocks: int) -> None:
    if platform.system() != "Linux":
        raise QuotaUnsupported(platform.system())
    limits = _LIMITS.pack(blocks, blocks, 0, 0, 0, 0, 0, 0, _BLOCK_LIMITS)
    command = _SET_QUOTA << 8 | _PROJECT_QUOTA
    if _libc().syscall(_QUOTACTL_FD, directory, command, project, limits) != 0:
        number = ctypes.get_errno()
        if number in _UNSUPPORTED:
            raise QuotaUnsupported(os.strerror(number))
        raise OSError(number, os.strerror(number))


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.argtypes = (ctypes.c_long, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint32, ctypes.c_char_p)
    libc.syscall.restype = ctypes.c_long
    return libc
