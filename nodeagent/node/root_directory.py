"""Root directory of the agent: subdirectories for pods and drivers, and the propagation of mounts. Blocking."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from nodeagent.base.mounts.calls import make_shared
from nodeagent.base.mounts.table import MountEntry, containing_mount, mounts_at, mounts_below, read_mounts

_DIRECTORIES = ("pods", "plugins", "plugins_registry")
_MODE = 0o750
_log = logging.getLogger(__name__)


def prepare_root(root: Path, change: Callable[[Path], None] = make_shared) -> None:
    """Create the root directory with its subdirectories, on a shared mount.

    The manifests of drivers require the subdirectories. Without a shared mount, the mounts of a driver in a container
    do not reach other containers; the failure is logged, because pods without such volumes can run.

    :param root: the root directory.
    :param change: makes a directory a shared mount.
    :raises OSError: a directory cannot be created.
    """
    root.mkdir(mode=_MODE, parents=True, exist_ok=True)
    for name in _DIRECTORIES:
        (root / name).mkdir(mode=_MODE, exist_ok=True)
    try:
        if share(root, read_mounts(), change):
            _log.info("Made root directory a shared mount", extra={"path": str(root)})
    except OSError as error:
        level = logging.ERROR if os.geteuid() == 0 else logging.INFO
        _log.log(level, "Failed to make root directory a shared mount", extra={"path": str(root), "err": str(error)})


def share(root: Path, mounts: Sequence[MountEntry], change: Callable[[Path], None] = make_shared) -> bool:
    """Make *root* a shared mount, unless it is located on one; return whether it was changed.

    :param root: the root directory.
    :param mounts: the mount table.
    :param change: makes a directory a shared mount.
    :raises OSError: the agent lacks the permission, or volumes are mounted below a directory that is not a mount
        point: a bind mount would hide them, and they could no longer be unmounted.
    """
    entry = containing_mount(root, mounts)
    if entry is not None and entry.shared:
        return False
    if not mounts_at(root, mounts) and (below := mounts_below(root, mounts)):
        reason = "volumes are mounted below it, drain the node and restart it"
        raise OSError(errno.EBUSY, reason, below[0].path)
    change(root)
    return True
