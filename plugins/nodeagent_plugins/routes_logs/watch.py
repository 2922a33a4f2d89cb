"""Directory watcher: one inotify instance for all followers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nodeagent.base.aio.inotify import CREATE, DELETE, MODIFY, MOVED_FROM, MOVED_TO, Change, Inotify

_log = logging.getLogger(__name__)


class Watches:
    """Watches of the directories in which a file is followed.

    Without a watch, for example because the system has none left, followers still poll.
    """

    def __init__(self) -> None:
        self._inotify: Inotify | None = None
        self._followers: dict[int, set[asyncio.Event]] = {}

    @asynccontextmanager
    async def watching(self, directory: str) -> AsyncIterator[asyncio.Event]:
        """Provide an event that is set at each change in *directory*."""
        changed = asyncio.Event()
        watch = self._add(directory, changed)
        try:
            yield changed
        finally:
            if watch is not None:
                self._drop(watch, changed)

    def _add(self, directory: str, changed: asyncio.Event) -> int | None:
        try:
            if self._inotify is None:
                self._inotify = Inotify(self._notify)
            watch = self._inotify.watch(directory, MODIFY | MOVED_FROM | MOVED_TO | CREATE | DELETE)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                _log.warning("Failed to watch log directory, polling", extra={"path": directory, "err": str(error)})
            self._close_unused()
            return None
        self._followers.setdefault(watch, set()).add(changed)
        return watch

    def _drop(self, watch: int, changed: asyncio.Event) -> None:
        followers = self._followers[watch]
        followers.discard(changed)
        if not followers:
            del self._followers[watch]
            if self._inotify is not None:
                self._inotify.unwatch(watch)
            self._close_unused()

    def _close_unused(self) -> None:
        if not self._followers and self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def _notify(self, change: Change) -> None:
        # After an overflow of the queue, any directory may have changed.
        affected = self._followers.values() if change.watch < 0 else [self._followers.get(change.watch, set())]
        for followers in affected:
            for changed in followers:
                changed.set()
