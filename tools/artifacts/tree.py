"""File trees with deterministic archives: sorted names, one time stamp, owner root."""

from __future__ import annotations

import io
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True)
class Entry:
    """File, link or directory of a tree."""

    mode: int
    read: Callable[[], bytes] | None = None
    link: str = ""

    @property
    def is_directory(self) -> bool:
        return self.read is None and not self.link


class Tree:
    """Files by path, without a leading slash."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def add(self, path: str, data: bytes | Callable[[], bytes], mode: int = 0o644) -> None:
        self._entries[path.strip("/")] = Entry(mode, data if callable(data) else lambda: data)

    def link(self, path: str, target: str) -> None:
        self._entries[path.strip("/")] = Entry(0o777, link=target)

    def directory(self, path: str, mode: int = 0o755) -> None:
        self._entries[path.strip("/")] = Entry(mode)

    def copy(self, source: Path, path: str, mode: int | None = None) -> None:
        """Add a file of the disk; without *mode*, only its executable bit is kept."""
        executable = source.stat().st_mode & stat.S_IXUSR
        self.add(path, source.read_bytes, mode if mode is not None else 0o755 if executable else 0o644)

    def entries(self) -> Iterator[tuple[str, Entry]]:
        """Yield all entries with their parent directories, sorted."""
        names = set(self._entries)
        for name in list(names):
            names |= {str(parent) for parent in Path(name).parents if str(parent) != "."}
        for name in sorted(names):
            yield name, self._entries.get(name) or Entry(0o755)

    def files(self) -> Iterator[tuple[str, Entry]]:
        return ((name, entry) for name, entry in self.entries() if not entry.is_directory)

    def write_tar(self, stream: BinaryIO, time: int, prefix: str = "./") -> None:
        """Write the tree as a tar archive."""
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
            if prefix:
                archive.addfile(_member(prefix, Entry(0o755), time))
            for name, entry in self.entries():
                member = _member(prefix + name, entry, time)
                data = entry.read() if entry.read is not None else b""
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data) if data else None)


def _member(name: str, entry: Entry, time: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.mtime, member.uname, member.gname = entry.mode, time, "root", "root"
    if entry.link:
        member.type, member.linkname = tarfile.SYMTYPE, entry.link
    elif entry.is_directory:
        member.type = tarfile.DIRTYPE
    return member
