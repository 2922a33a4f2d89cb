"""Atomic writer: readers of a volume see either the complete old or the complete new content.

The files are written to a directory ``..<time>``, and the link ``..data`` to it is replaced by one rename; the
user-visible names are links into ``..data``. Blocking.

Custom, since packages replace single files atomically, not directories.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from nodeagent.base.mounts.ownership import apply_fs_group
from nodeagent.base.structs import Struct
from nodeagent.errors import VolumeError
from nodeagent_plugins.volumes.trees import remove_tree

DATA, _NEW_DATA = "..data", "..data_tmp"
_MAX_PATH, _MAX_NAME = 4096, 255


class File(Struct, frozen=True):
    """Content, mode and optional owner of one file."""

    data: bytes
    mode: int
    user: int | None = None


Payload = Mapping[str, File]
"""Files by relative path."""


def check_path(path: str) -> None:
    """Reject a path that leaves its directory or collides with the writer's own names.

    :raises VolumeError: the path violates a rule, which the text names.
    """
    parts = path.split("/")
    if not path:
        problem = "must not be empty"
    elif path.startswith("/"):
        problem = "must be relative"
    elif ".." in parts:
        problem = "must not contain '..'"
    elif parts[0].startswith(".."):
        problem = "must not start with '..'"
    elif "" in parts or "." in parts or "\0" in path:
        problem = "must be a plain path"
    elif len(path.encode()) > _MAX_PATH or any(len(part.encode()) > _MAX_NAME for part in parts):
        problem = "is too long"
    else:
        return
    raise VolumeError(f"invalid path {path!r}: {problem}")


def write_payload(directory: Path, payload: Payload, *, group: int | None, now: datetime) -> bool:
    """Make *payload* the content of *directory*; return whether anything was written.

    :param group: the pod's fsGroup, which gets read permission.
    :raises VolumeError: a path is invalid.
    :raises OSError: the files cannot be written; the old content remains.
    """
    for path in payload:
        check_path(path)
    current = _current(directory)
    if current is not None and _holds(current, payload, group):
        _link_names(directory, payload)  # A killed writer may not have created all links.
        _remove_old(directory, payload, current.name)
        return False
    fresh = Path(tempfile.mkdtemp(prefix=f"..{now:%Y_%m_%d_%H_%M_%S}.", dir=directory))
    try:
        fresh.chmod(0o755)
        _write_files(fresh, payload)
        if group is not None:
            apply_fs_group(fresh, group, read_only=True)
        new_link = directory / _NEW_DATA
        new_link.unlink(missing_ok=True)
        new_link.symlink_to(fresh.name)
        new_link.replace(directory / DATA)
    except BaseException:
        remove_tree(fresh)
        raise
    _link_names(directory, payload)
    _remove_old(directory, payload, fresh.name)
    return True


def _current(directory: Path) -> Path | None:
    try:
        return directory / (directory / DATA).readlink().name
    except OSError:
        return None


def _holds(current: Path, payload: Payload, group: int | None) -> bool:
    """Return whether exactly these files exist, with their content, modes and owners."""
    found = {str(path.relative_to(current)) for path in current.rglob("*") if not path.is_dir()}
    if found != set(payload):
        return False
    for path, file in payload.items():
        target = current / path
        status = target.lstat()
        mode = file.mode if group is None else file.mode | 0o440
        right = stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == mode
        owned = (file.user is None or status.st_uid == file.user) and (group is None or status.st_gid == group)
        if not right or not owned or status.st_size != len(file.data) or target.read_bytes() != file.data:
            return False
    return True


def _write_files(root: Path, payload: Payload) -> None:
    for path, file in payload.items():
        target = root / path
        for parent in reversed(target.relative_to(root).parents[:-1]):
            (root / parent).mkdir(exist_ok=True)
            (root / parent).chmod(0o755)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as stream:  # noqa: PTH123 - a descriptor, not a path
            stream.write(file.data)
            if file.user is not None:
                os.fchown(descriptor, file.user, -1)
            os.fchmod(descriptor, file.mode)


def _link_names(directory: Path, payload: Payload) -> None:
    """Create the user-visible link of each top-level name."""
    for name in {path.partition("/")[0] for path in payload}:
        with contextlib.suppress(FileExistsError):
            (directory / name).symlink_to(f"{DATA}/{name}")


def _remove_old(directory: Path, payload: Payload, current: str) -> None:
    """Remove stale links and every other ``..<time>`` directory, including those of a killed writer."""
    names = {path.partition("/")[0] for path in payload}
    for entry in list(directory.iterdir()):
        if entry.is_symlink():
            if entry.name != DATA and entry.name not in names:
                entry.unlink()
        elif entry.name.startswith("..") and entry.name != current:
            remove_tree(entry)
