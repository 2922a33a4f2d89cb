"""Checks of the type of a host path. Blocking."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

_CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "DirectoryOrCreate": (stat.S_ISDIR, "directory"),
    "Directory": (stat.S_ISDIR, "directory"),
    "FileOrCreate": (stat.S_ISREG, "file"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket file"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


class HostPathError(ValueError):
    """The path does not have its type; the message contains the reason."""


def check_host_path(path: Path, kind: str) -> None:
    """Check that *path* has the type *kind*; the types ``…OrCreate`` create it. Blocking.

    :raises HostPathError: the check failed.
    """
    if kind not in _CHECKS:
        raise HostPathError(f"hostPath type check failed: invalid hostPath type {kind!r}")
    fits, noun = _CHECKS[kind]
    try:
        if kind == "DirectoryOrCreate":
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        elif kind == "FileOrCreate" and not path.exists():
            path.touch(mode=0o644)
        if fits(path.stat().st_mode):
            return
    except FileExistsError:
        pass  # The path exists; its type is checked below.
    except OSError as error:
        raise HostPathError(f"hostPath type check failed: {path}: {error.strerror}") from error
    raise HostPathError(f"hostPath type check failed: {path} is not a {noun}")
