"""Directories of volumes. Blocking."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path

from nodeagent.base.removal import remove_tree

__all__ = ["make_directories", "open_to_all", "remove_if_empty", "remove_tree"]


def make_directories(path: Path) -> None:
    """Create *path* and its missing parents without permissions for others."""
    for directory in reversed([path, *path.parents]):
        if not directory.exists():
            directory.mkdir(mode=0o750, exist_ok=True)


def open_to_all(directory: Path) -> None:
    """Grant all users read and write access to *directory*; set-group-ID and sticky bits remain."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & 0o777 != 0o777:
        directory.chmod(mode | 0o777)


def remove_if_empty(*directories: Path) -> None:
    """Remove the directories that are empty, in order."""
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()
