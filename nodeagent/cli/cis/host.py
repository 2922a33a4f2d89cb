"""Files of the checked host, whose root may be another directory, such as a staged installation or ``/host``."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

_MAX_LINKS = 40
"""Number of symbolic links in a path after which Linux reports ``ELOOP``."""


class HostFiles:
    """Absolute paths of a host, with symbolic links resolved below its root."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def path(self, name: str | Path) -> Path:
        """Return the path at which the file *name* of the host is accessible here."""
        if self._root == Path("/"):
            return Path(name)
        current, links = self._root, 0
        absolute = Path(name)
        rest = list(reversed((absolute.relative_to(self._root) if self._owns(absolute) else absolute).parts))
        while rest:
            part = rest.pop()
            if part == "/":
                current = self._root
            elif part == "..":
                current = current.parent if current != self._root else current
            elif (current / part).is_symlink() and links < _MAX_LINKS:
                links += 1
                rest += reversed((current / part).readlink().parts)
            else:
                current /= part
        return current

    def exists(self, name: str | Path) -> bool:
        return self.path(name).exists()

    def text(self, name: str | Path) -> str:
        """Return the content of a file, empty if it is missing or unreadable."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def files(self, directory: str, pattern: str) -> list[str]:
        """Return the paths of the files in *directory*, sorted by name."""
        return sorted(f"{directory}/{path.name}" for path in self.path(directory).glob(pattern))

    def _owns(self, path: Path) -> bool:
        return path.is_relative_to(self._root)


def excessive_modes(host: HostFiles, names: Iterable[str], widest: int) -> Iterator[str]:
    """Yield a description of each file that is missing or has a mode above *widest*."""
    for name in names:
        status = _status(host, name)
        if status is None:
            yield f"{name} does not exist"
        elif stat.S_IMODE(status.st_mode) & ~widest:
            yield f"{name} has mode {stat.S_IMODE(status.st_mode):04o}"


def unexpected_owners(host: HostFiles, names: Iterable[str]) -> Iterator[str]:
    """Yield a description of each file that is missing or not owned by ``root:root``."""
    for name in names:
        status = _status(host, name)
        if status is None:
            yield f"{name} does not exist"
        elif (status.st_uid, status.st_gid) != (0, 0):
            yield f"{name} is owned by {status.st_uid}:{status.st_gid}"


def _status(host: HostFiles, name: str) -> os.stat_result | None:
    try:
        return host.path(name).stat()
    except OSError:
        return None
