"""Directory with registration sockets: its content, and notification of changes by the kernel."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from asyncinotify import Inotify

_MAX_DEPTH = 8
_MAX_ENTRIES = 10_000

_log = logging.getLogger(__name__)


class Stamp(Struct, frozen=True):
    """Identity of a socket: one that is created again at the same path has another stamp.

    The modification time is that of the creation; unlike the change time, ``chmod`` does not affect it.
    """

    device: int
    inode: int
    modified_ns: int


class Snapshot(Struct, frozen=True):
    """Sockets by path, the directories that contain them or may do so, and symbolic links, which are ignored."""

    sockets: dict[str, Stamp]
    directories: frozenset[str]
    links: frozenset[str] = frozenset()


def scan(directory: Path) -> Snapshot:
    """Return the content of *directory*, recursively and without following symbolic links. Blocking.

    Names that start with a dot are ignored. A missing directory is created.

    :raises OSError: the directory cannot be created or read.
    """
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    sockets: dict[str, Stamp] = {}
    directories, links = {str(directory)}, set()
    entries = 0
    for entry in _walk(str(directory), 0):
        entries += 1
        if entries > _MAX_ENTRIES:
            _log.warning("Too many files in plugin directory, ignoring the rest", extra={"path": str(directory)})
            break
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # Deleted since it was listed.
        if stat.S_ISDIR(status.st_mode):
            directories.add(entry.path)
        elif stat.S_ISLNK(status.st_mode):
            links.add(entry.path)
        elif stat.S_ISSOCK(status.st_mode):
            sockets[entry.path] = Stamp(status.st_dev, status.st_ino, status.st_mtime_ns)
    return Snapshot(sockets, frozenset(directories), frozenset(links))


def _walk(directory: str, depth: int) -> Iterator[os.DirEntry[str]]:
    try:
        listed = os.scandir(directory)
    except OSError:
        if depth == 0:
            raise
        return  # Deleted since it was listed.
    with listed:
        for entry in listed:
            if entry.name.startswith("."):
                continue
            yield entry
            if depth < _MAX_DEPTH and entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, depth + 1)


class DirectoryWatch:
    """Sets :attr:`changed` when an entry of a watched directory is created, renamed or deleted."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._inotify: Inotify | None = None
        self._watched: set[str] = set()
        self._failed = False

    async def __aenter__(self) -> Self:
        # The import looks for libc through a child process.
        await asyncio.to_thread(importlib.import_module, "asyncinotify")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fd)
            self._inotify.close()

    @property
    def complete(self) -> bool:
        """False if a directory cannot be watched and has to be polled."""
        return not self._failed

    def watch(self, directories: frozenset[str]) -> bool:
        """Watch *directories*; return whether one of them was not watched before, so that it has to be read again."""
        from asyncinotify import Inotify, Mask

        self._watched &= directories
        self._failed = False
        added = False
        for directory in sorted(directories - self._watched):
            try:
                if self._inotify is None:
                    self._inotify = Inotify(sync_timeout=0)
                    asyncio.get_running_loop().add_reader(self._inotify.fd, self._read)
                self._inotify.add_watch(directory, Mask.CREATE | Mask.DELETE | Mask.MOVE | Mask.ONLYDIR)
            except OSError as error:
                if not isinstance(error, FileNotFoundError) and not self._failed:
                    _log.warning("Failed to watch directory, polling", extra={"path": directory, "err": str(error)})
                self._failed = True
                continue
            self._watched.add(directory)
            added = True
        return added

    def _read(self) -> None:
        assert self._inotify is not None
        while self._inotify.sync_get() is not None:
            self.changed.set()
