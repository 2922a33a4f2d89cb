"""Lookup of provider executables in the configured directory, which symbolic links must not leave."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def find_directory(directory_name: str) -> Path:
    """Return the directory of the executables, with all symbolic links resolved.

    :raises ValueError: it is not a directory or is world-writable; the message is a sentence part.
    """
    try:
        directory = Path(directory_name).resolve(strict=True)
        mode = directory.stat().st_mode
    except OSError as error:
        raise ValueError(f"failed to open: {_reason(error)}") from error
    if not stat.S_ISDIR(mode):
        raise ValueError("is not a directory")
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise ValueError("is world-writable; remove write permission for others")
    return directory


def find_executable(directory: Path, name: str) -> Path:
    """Return the executable *name* in *directory*, which :func:`find_directory` returned.

    A symbolic link to another file of the directory is allowed.

    :raises ValueError: the executable is missing or unusable; the message is a sentence part.
    """
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ValueError("must be a file name without a path")
    try:
        executable = (directory / name).resolve(strict=True)
        mode = executable.stat().st_mode
    except (OSError, RuntimeError) as error:  # RuntimeError is raised for a link loop.
        raise ValueError(f"failed to open: {_reason(error)}") from error
    if not executable.is_relative_to(directory):
        raise ValueError("is a symbolic link to a file outside of the directory")
    if not stat.S_ISREG(mode):
        raise ValueError("is not a file")
    if mode & stat.S_IWOTH:
        raise ValueError("is world-writable; remove write permission for others")
    if not mode & 0o111 or not os.access(executable, os.X_OK):
        raise ValueError("is not executable")
    return executable


def _reason(error: Exception) -> str:
    strerror = getattr(error, "strerror", None)
    return strerror.lower() if strerror else "symbolic link loop"
