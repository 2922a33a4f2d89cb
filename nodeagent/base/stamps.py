"""Whether a file is another than the one that was read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp | None:
    """Return what changes when *path* is written or replaced, ``None`` when it is not there. Asks the disk."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def stamps(paths: Iterable[Path]) -> tuple[Stamp | None, ...]:
    """Return the stamp of each of *paths*."""
    return tuple(map(stamp, paths))
