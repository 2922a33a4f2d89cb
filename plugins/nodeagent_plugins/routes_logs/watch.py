"""Directory watcher: one inotify instance for all followers."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncinotify import Inotify, Watch

_log = logging.getLogger(__name__)


class Watches:
    """Watches of the directories in which a file is followed.

    Without a watch, for example because the system has none left, followers still poll.
    """

    def __init__(self) -> None:
        self._inotify: Inotify | None = None
        self._followers: dict[Watch, set[asyncio.Event]] = {}

    @asynccontextmanager
    async def watching(self, directory: str) -> AsyncIterator[asyncio.Event]:
        """Provide an event that is set at each change in *directory*."""
        # The import looks for libc through a child process.
        await asyncio.to_thread(importlib.import_module, "asyncinotify")
        changed = asyncio.Event()
        watch = self._add(directory, changed)
        try:
            yield changed
        finally:
            if watch is not None:
                self._drop(watch, changed)

    def _add(self, directory: str, changed: asyncio.Event) -> Watch | None:
        from asyncinotify import Inotify, Mask

        mask = Mask.MODIFY | Mask.MOVE | Mask.CREATE | Mask.DELETE
        try:
            if self._inotify is None:
                self._inotify = Inotify(sync_timeout=0)
                asyncio.get_running_loop().add_reader(self._inotify.fd, self._read, self._inotify)
            watch = self._inotify.add_watch(directory, mask)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                _log.warning("Failed to watch log directory, polling", extra={"path": directory, "err": str(error)})
            self._close_unused()
            return None
        self._followers.setdefault(watch, set()).add(changed)
        return watch

    def _drop(self, watch: Watch, changed: asyncio.Event) -> None:
        followers = self._followers[watch]
        followers.discard(changed)
        if not followers:
            del self._followers[watch]
            if self._inotify is not None:
                with contextlib.suppress(OSError):  # The directory was deleted, and its watch with it.
                    self._inotify.rm_watch(watch)
            self._close_unused()

    def _close_unused(self) -> None:
        if not self._followers and self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fd)
            self._inotify.close()
            self._inotify = None

    def _read(self, inotify: Inotify) -> None:
        while (event := inotify.sync_get()) is not None:
            # After an overflow of the queue, any directory may have changed.
            affected = [self._followers.get(event.watch, ())] if event.watch else list(self._followers.values())
            for followers in affected:
                for changed in followers:
                    changed.set()
