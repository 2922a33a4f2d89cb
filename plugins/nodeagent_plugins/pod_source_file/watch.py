"""Watch of the manifest directory."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from nodeagent.base.aio import inotify
from nodeagent_plugins.pod_source_file.files import is_manifest

_log = logging.getLogger(__name__)

_CHANGES = (
    inotify.CREATE  # Also of symbolic links and directories.
    | inotify.CLOSE_WRITE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.DELETE
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
)


class Watch:
    """Calls *notify* in the event loop when a directory, or the directory of a file, changes."""

    def __init__(self, path: Path, notify: Callable[[], None]) -> None:
        self._path, self._notify = path, notify
        self._inotify: inotify.Inotify | None = None
        self._number = -1
        self._watched: tuple[str, int, int] | None = None
        self._failing = False
        self._closed = False
        self._deleted: deque[str] = deque()
        self._lock = threading.Lock()  # A cancelled read may still be running while the watch is closed.

    def open(self) -> None:
        """Prepare :meth:`renew`, which runs in a thread."""
        if self._inotify is None:
            try:
                self._inotify = inotify.Inotify(self._changed)
            except OSError as error:
                self._report(error)

    def renew(self) -> bool:
        """Watch the directory that is currently at the path, or its parent; return whether that succeeded. Blocking.

        Cheap if it is unchanged.
        """
        with self._lock:
            if self._closed or self._inotify is None:
                return False
            try:
                self._follow(self._inotify)
            except OSError as error:
                self._end(self._inotify)
                self._report(error)
                return False
            self._failing = False
            return True

    async def close(self) -> None:
        """End the watch permanently."""
        try:
            await asyncio.to_thread(self._forbid)
        finally:
            if self._inotify is not None:
                self._inotify.close()

    def take_deleted(self) -> set[str]:
        """Return the names of the files that were deleted or renamed since the last call."""
        deleted: set[str] = set()
        while self._deleted:
            deleted.add(self._deleted.popleft())
        return deleted

    def _changed(self, change: inotify.Change) -> None:
        is_directory = bool(change.mask & inotify.IS_DIRECTORY)
        if change.mask & inotify.IGNORED:
            if change.watch != self._number:
                return  # This watch was ended in favor of another one.
            self._watched = None
        if change.mask & (inotify.DELETE | inotify.MOVED_FROM) and not is_directory:
            self._deleted.append(change.name)
        if is_directory or not change.name or is_manifest(change.name):
            self._notify()

    def _follow(self, instance: inotify.Inotify) -> None:
        directory = self._path if self._path.is_dir() else self._path.parent
        status = directory.stat()
        desired = (str(directory), status.st_dev, status.st_ino)
        if desired != self._watched:
            self._end(instance)
            self._number = instance.watch(str(directory), _CHANGES | inotify.ONLY_DIRECTORY)
            self._watched = desired

    def _end(self, instance: inotify.Inotify) -> None:
        number, self._number, self._watched = self._number, -1, None
        if number >= 0:
            instance.unwatch(number)

    def _forbid(self) -> None:
        with self._lock:
            self._closed = True

    def _report(self, error: OSError) -> None:
        """Log the first of consecutive failures."""
        if not self._failing and error.errno != errno.ENOENT:
            _log.warning("Failed to watch config path, polling it", extra={"path": str(self._path), "err": str(error)})
        self._failing = True
