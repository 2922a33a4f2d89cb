"""Directory watcher: one inotify instance for all followers."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)

_MASK = 0x002 | 0x040 | 0x080 | 0x100 | 0x200  # IN_MODIFY, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE and IN_DELETE.
_EVENT = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Watches:
    """Watches the directories of followed files.

    Without a watch, for example because the system has none left, followers still poll.
    """

    def __init__(self) -> None:
        self._descriptor = -1
        self._waiting: dict[int, set[asyncio.Event]] = {}

    @contextmanager
    def watching(self, directory: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each change in *directory*."""
        news = asyncio.Event()
        watch = self._add(directory, news)
        try:
            yield news
        finally:
            self._drop(watch, news)

    def _add(self, directory: str, news: asyncio.Event) -> int:
        if self._descriptor < 0:
            self._descriptor = int(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
            if self._descriptor < 0:
                _log.warning("Failed to watch log directory, polling", extra={"err": os.strerror(ctypes.get_errno())})
                return -1
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        watch = int(_libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _MASK))
        if watch >= 0:
            self._waiting.setdefault(watch, set()).add(news)
        else:
            self._close_unused()
        return watch

    def _drop(self, watch: int, news: asyncio.Event) -> None:
        waiting = self._waiting.get(watch)
        if waiting is None:
            return
        waiting.discard(news)
        if not waiting:
            del self._waiting[watch]
            _libc.inotify_rm_watch(self._descriptor, watch)
            self._close_unused()

    def _close_unused(self) -> None:
        if not self._waiting and self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._descriptor, 64 * 1024)
            position = 0
            while position < len(data):
                watch, _, _, length = _EVENT.unpack_from(data, position)
                position += _EVENT.size + length
                # -1 means that changes were lost: notify all followers.
                for waiting in [self._waiting.get(watch, ())] if watch >= 0 else list(self._waiting.values()):
                    for news in waiting:
                        news.set()
