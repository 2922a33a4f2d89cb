"""Signatures of files, to detect that a file has changed since it was read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FileSignature = tuple[int, int, int]


def file_signature(path: Path) -> FileSignature | None:
    """Return modification time, size and inode of *path*, or ``None`` if it does not exist. Calls ``stat``."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def file_signatures(paths: Iterable[Path]) -> tuple[FileSignature | None, ...]:
    """Return the signature of each of *paths*."""
    return tuple(map(file_signature, paths))
