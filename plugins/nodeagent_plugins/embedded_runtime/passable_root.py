"""A path to the runtime's directory that the users of pods with user namespaces can pass.

The agent's root directory, which contains that of the runtime by default, has mode 0750 as with the kubelet. Root of a
user namespace is another user on the host, and its OCI runtime opens root file systems and mounts by their paths.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from pathlib import Path

from nodeagent_plugins.embedded_runtime.helpers import syscalls
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.rootfs import mount_points

_log = logging.getLogger(__name__)
ALIASES = Path("/run/nodeagent-runtime")
_MODE = 0o711


def find_closed(root: Path) -> Path | None:
    """Return a directory of the path *root* that other users cannot pass."""
    absolute = root.resolve()
    return next((path for path in (absolute, *absolute.parents) if not path.stat().st_mode & stat.S_IXOTH), None)


def alias_of(root: Path) -> Path:
    """Return the mount point for *root*; it is the same after a restart."""
    return ALIASES / hashlib.blake2b(os.fsencode(root.resolve()), digest_size=8).hexdigest()


def make_passable(root: Path, host: Host) -> Path:
    """Return *root*, or a bind mount of it if other users cannot pass its parents.

    The mount outlives the runtime as the containers do. If it cannot be made, pods have no user namespaces.
    """
    if host.remapped or host.chrooted or find_closed(root) in (None, root.resolve()):
        return root
    alias = alias_of(root)
    try:
        ALIASES.mkdir(mode=_MODE, parents=True, exist_ok=True)
        alias.mkdir(mode=_MODE, exist_ok=True)
        if _is_mounted(alias) and not alias.samefile(root):
            syscalls.unmount(str(alias))  # Of a directory that was deleted.
        if not _is_mounted(alias):
            syscalls.mount(str(root), str(alias), flags=syscalls.MS_BIND | syscalls.MS_REC)
            syscalls.mount("", str(alias), flags=syscalls.MS_PRIVATE)
    except OSError as error:
        _log.warning("Failed to mount runtime directory for user namespaces", extra={"path": str(alias), "err": error})
        return root
    return alias


def release(root: Path) -> None:
    """Remove the bind mount of *root*, if there is one; there must be no pods."""
    alias = alias_of(root)
    try:
        while _is_mounted(alias):
            syscalls.unmount(str(alias))
        alias.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        _log.warning("Failed to remove mount of runtime directory", extra={"path": str(alias), "err": error})


def _is_mounted(alias: Path) -> bool:
    """Return whether something is mounted at *alias*; ``Path.is_mount`` misses bind mounts of the same file system."""
    return str(alias) in mount_points(alias)
