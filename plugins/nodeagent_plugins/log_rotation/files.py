"""The files of one container's log: which there are, which go, how one is renamed. All but the choices blocks.

A log ``0.log`` is renamed to ``0.log.20240102-150405`` (UTC) and later compressed to ``0.log.20240102-150405.gz``;
names in order are files in order. Links are never followed: a pod may have the directory mounted.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

COMPRESSED = ".gz"
UNFINISHED = ".tmp"
_STAMP = "%Y%m%d-%H%M%S"


@dataclass(frozen=True, slots=True)
class Sorted:
    """Names of rotated files, the oldest first, by what is to be done with them."""

    useless: Sequence[str] = ()
    """Unfinished ones, and plain ones of which there is a compressed one."""
    excess: Sequence[str] = ()
    kept: Sequence[str] = ()


def sort_rotated(names: Iterable[str], keep: int, busy: Collection[str] = ()) -> Sorted:
    """Decide which rotated files go so that *keep* remain; unfinished ones in *busy* are still being written. Pure."""
    known = set(names)
    useless = {name for name in known if name.endswith(UNFINISHED) or name + COMPRESSED in known}
    left = sorted(known - useless)
    cut = max(0, len(left) - max(0, keep))
    return Sorted(sorted(useless - set(busy)), left[:cut], left[cut:])


def size_of(path: Path) -> int | None:
    """Return the size of a regular file; ``None`` when it is not there.

    :raises OSError: it cannot be looked at, or is something else than a file.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{path} is no regular file")
    return found.st_size


def rotated_names(log: Path) -> list[str]:
    """Return the names of what was rotated out of *log*, in no order."""
    prefix = f"{log.name}."
    with os.scandir(log.parent) as entries:
        return [e.name for e in entries if e.name.startswith(prefix) and e.is_file(follow_symlinks=False)]


def remove(directory: Path, names: Iterable[str]) -> None:
    """Remove files; those that are gone already are fine."""
    for name in names:
        (directory / name).unlink(missing_ok=True)


def set_aside(log: Path, at: datetime) -> Path | None:
    """Rename *log* for good and return where it is now; ``None`` when that name is taken, so nothing is overwritten."""
    target = log.with_name(f"{log.name}.{at.strftime(_STAMP)}")
    if any(os.path.lexists(f"{target}{end}") for end in ("", COMPRESSED)):
        return None
    log.rename(target)
    return target


def put_back(rotated: Path, log: Path) -> None:
    """Undo :func:`set_aside`, unless a new log is there already; repeatable."""
    # A link fails where a rename would overwrite what the runtime may have begun after all.
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        os.link(rotated, log)
        rotated.unlink()
