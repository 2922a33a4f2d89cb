"""Limits of the size of directories by project quotas of XFS and ext4. Blocking.

The file system must be mounted with the option ``prjquota`` (ext4 also needs the features ``project`` and ``quota``).
"""

from __future__ import annotations

import contextlib
import errno
import zlib
from collections.abc import Collection

from nodeagent.base.project_quota import BLOCK_BYTES, inherit_project, limit_project

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
    blocks = -(-capacity // BLOCK_BYTES)
    try:
        # The limit first: without quotas, the directory is not changed.
        limit_project(directory, project, blocks)
        inherit_project(directory, project)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        clear(directory, project)
        raise QuotaUnsupported(error.strerror) from error


def clear(directory: int, project: int) -> None:
    """Remove the limit of a project; failures are ignored, because it no longer concerns any file."""
    with contextlib.suppress(OSError):
        limit_project(directory, project, 0)
