"""Which file a provider's name means: a program in one fixed directory, and nothing that leads out of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def find_directory(given: str) -> Path:
    """Return the directory of the providers, with every symbolic link followed.

    :raises ValueError: it is none, or everybody may put programs into it; the message is a sentence part.
    """
    try:
        directory = Path(given).resolve(strict=True)
        mode = directory.stat().st_mode
    except OSError as error:
        raise ValueError(f"cannot be opened: {_reason(error)}") from error
    if not stat.S_ISDIR(mode):
        raise ValueError("is not a directory")
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise ValueError("is writable for everybody, so anybody could exchange the programs in it")
    return directory


def find_program(directory: Path, name: str) -> Path:
    """Return the file of the program *name* in *directory*, as :func:`find_directory` returned it.

    A symbolic link may lead to another file of the directory.

    :raises ValueError: there is no such program, or it may not be used; the message is a sentence part.
    """
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ValueError("must be a file name without a path")
    try:
        program = (directory / name).resolve(strict=True)
        mode = program.stat().st_mode
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise ValueError(f"cannot be opened: {_reason(error)}") from error
    if not program.is_relative_to(directory):
        raise ValueError("is a symbolic link that leads out of the directory")
    if not stat.S_ISREG(mode):
        raise ValueError("is not a file")
    if mode & stat.S_IWOTH:
        raise ValueError("is writable for everybody, so anybody could exchange it")
    if not mode & 0o111 or not os.access(program, os.X_OK):
        raise ValueError("is not executable")
    return program


def _reason(error: Exception) -> str:
    strerror = getattr(error, "strerror", None)
    return strerror.lower() if strerror else "its symbolic links form a circle"
