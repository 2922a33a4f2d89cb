"""Compression of rotated logs, one at a time, asynchronously to the rotation."""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from nodeagent_plugins.log_rotation.files import COMPRESSED, UNFINISHED

_log = logging.getLogger(__name__)
_BLOCK_BYTES = 256 * 1024
_LEVEL = 1  # Logs compress almost as well as at higher levels, at a fraction of the time.


class Compressor:
    """Compresses files to ``PATH.gz`` and removes the originals."""

    def __init__(self) -> None:
        self._waiting: dict[Path, None] = {}
        self._news = asyncio.Event()
        self._current: Path | None = None
        self._stop = threading.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def unfinished(self) -> frozenset[str]:
        """Names of unfinished files."""
        return frozenset() if self._current is None else frozenset({f"{self._current.name}{UNFINISHED}"})

    def request(self, paths: Iterable[Path]) -> None:
        """Queue *paths* for compression."""
        self._waiting.update(dict.fromkeys(path for path in paths if path != self._current))
        self._news.set()

    async def drop(self, paths: Iterable[Path]) -> None:
        """Remove *paths* from the queue; on return none of them is being compressed."""
        for path in paths:
            self._waiting.pop(path, None)
            if path == self._current:
                self._stop.set()
                await self._idle.wait()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._news.clear()
            while self._waiting:
                path = next(iter(self._waiting))
                del self._waiting[path]
                await self._compress(path)
            await self._news.wait()

    async def _compress(self, path: Path) -> None:
        self._current = path
        self._stop.clear()
        self._idle.clear()
        try:
            await asyncio.to_thread(compress, path, self._stop)
        except OSError as error:
            _log.warning("Failed to compress rotated log", extra={"path": str(path), "err": str(error)})
        finally:
            self._stop.set()  # The thread stops after the current block.
            self._current = None
            self._idle.set()


def compress(path: Path, stop: threading.Event) -> None:
    """Write ``PATH.gz`` atomically with the mode of *path*, then remove *path*; leaves nothing behind when stopped.

    :raises OSError: the file is not readable, not writable, or a link.
    """
    aside = path.with_name(f"{path.name}{UNFINISHED}")
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mode = os.fstat(source).st_mode & 0o777
        target = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            with open(target, "wb") as plain, gzip.GzipFile("", "wb", _LEVEL, plain) as packed:  # noqa: PTH123
                while (block := os.read(source, _BLOCK_BYTES)) and not stop.is_set():
                    packed.write(block)
            if stop.is_set():
                aside.unlink(missing_ok=True)
                return
            aside.rename(path.with_name(f"{path.name}{COMPRESSED}"))
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
    finally:
        os.close(source)
    path.unlink(missing_ok=True)
