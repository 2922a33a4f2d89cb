"""Files of one container's log: listing, selection and renaming. Blocking, except the selection.

A log ``0.log`` is renamed to ``0.log.20240102-150405`` (UTC) and later compressed to ``0.log.20240102-150405.gz``;
names sort by time. Links are never followed, because a pod may have the directory mounted.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path

from nodeagent.base.structs import Struct

COMPRESSED = ".gz"
UNFINISHED = ".tmp"
_STAMP = "%Y%m%d-%H%M%S"


class Sorted(Struct, frozen=True):
    """Names of rotated files by action, oldest first."""

    useless: Sequence[str] = ()
    """Unfinished files, and uncompressed ones with a compressed copy."""
    excess: Sequence[str] = ()
    kept: Sequence[str] = ()


def sort_rotated(names: Iterable[str], keep: int, busy: Collection[str] = ()) -> Sorted:
    """Select the rotated files to remove so that *keep* remain; unfinished ones in *busy* are in use. No I/O."""
    known = set(names)
    useless = {name for name in known if name.endswith(UNFINISHED) or name + COMPRESSED in known}
    left = sorted(known - useless)
    cut = max(0, len(left) - max(0, keep))
    return Sorted(sorted(useless - set(busy)), left[:cut], left[cut:])


def size_of(path: str) -> int | None:
    """Return the size of a regular file; ``None`` if it does not exist.

    :raises OSError: the path is not readable or not a regular file.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{path} is not a regular file")
    return found.st_size


def rotated_names(log: Path) -> list[str]:
    """Return the names of the rotated files of *log*, unsorted."""
    prefix = f"{log.name}."
    with os.scandir(log.parent) as entries:
        return [e.name for e in entries if e.name.startswith(prefix) and e.is_file(follow_symlinks=False)]


def remove(directory: Path, names: Iterable[str]) -> None:
    """Remove files; missing ones are ignored."""
    for name in names:
        (directory / name).unlink(missing_ok=True)


def set_aside(log: Path, at: datetime) -> Path | None:
    """Rename *log* and return the new path; ``None`` if that path exists, so nothing is overwritten."""
    target = log.with_name(f"{log.name}.{at.strftime(_STAMP)}")
    if any(os.path.lexists(f"{target}{end}") for end in ("", COMPRESSED)):
        return None
    log.rename(target)
    return target


def put_back(rotated: Path, log: Path) -> None:
    """Undo :func:`set_aside`, unless a new log exists; idempotent."""
    # A link fails where a rename would overwrite a log that the runtime has created.
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        os.link(rotated, log)
        rotated.unlink()
