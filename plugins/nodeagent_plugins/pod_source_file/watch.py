"""Watch of the manifest directory; the only importer of the watchdog library."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent_plugins.pod_source_file.files import is_manifest

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver

_log = logging.getLogger(__name__)

_STOP_SECONDS = 2.0


class Watch:
    """Notifies of changes in a directory, or in the directory of a file. Blocking; for one thread at a time."""

    def __init__(self, path: Path, notify: Callable[[], None]) -> None:
        self._path, self._notify = path, notify
        self._observer: BaseObserver | None = None
        self._watched: tuple[str, int, int] | None = None
        self._failing = False
        self._closed = False
        self._deleted: deque[str] = deque()
        self._lock = threading.Lock()  # A cancelled read may still be running while the watch is stopped.

    def renew(self) -> bool:
        """Watch the directory that is currently at the path, or its parent; return whether that succeeded.

        Cheap if it is unchanged.
        """
        with self._lock:
            if self._closed:
                return False
            try:
                self._follow()
            except OSError as error:
                self._end()
                if not self._failing and error.errno != errno.ENOENT:
                    shown = {"path": str(self._path), "err": str(error)}
                    _log.warning("Failed to watch config path, polling it", extra=shown)
                self._failing = True
            else:
                self._failing = False
            return not self._failing

    def stop(self) -> None:
        """Stop the watch and its threads permanently."""
        with self._lock:
            self._closed = True
            self._end()

    def dispatch(self, event: FileSystemEvent) -> None:
        """Process one event; called in the observer's thread."""
        names = [os.fsdecode(path).rpartition("/")[2] for path in (event.src_path, event.dest_path) if path]
        if event.event_type in ("deleted", "moved") and not event.is_directory:
            self._deleted.append(names[0])
        if event.is_directory or any(is_manifest(name) for name in names):
            self._notify()

    def take_deleted(self) -> set[str]:
        """Return the names of the files that were deleted or renamed since the last call."""
        deleted: set[str] = set()
        while self._deleted:
            deleted.add(self._deleted.popleft())
        return deleted

    def _follow(self) -> None:
        directory = self._path if self._path.is_dir() else self._path.parent
        status = directory.stat()
        desired = (str(directory), status.st_dev, status.st_ino)
        if desired != self._watched or self._observer is None or not self._observer.is_alive():
            self._end()
            self._observer = self._start(directory.resolve())
            self._watched = desired

    def _end(self) -> None:
        observer, self._observer, self._watched = self._observer, None, None
        if observer is not None:
            observer.stop()
            observer.join(_STOP_SECONDS)

    def _start(self, directory: Path) -> BaseObserver:
        from watchdog import events
        from watchdog.observers.inotify import InotifyObserver

        observer = InotifyObserver()
        observer.schedule(
            self,  # type: ignore[arg-type]  # anything with ``dispatch`` is a handler
            str(directory),
            event_filter=[
                events.FileCreatedEvent,  # Also for moved files and symbolic links.
                events.FileClosedEvent,
                events.FileMovedEvent,
                events.FileDeletedEvent,
                events.DirCreatedEvent,
                events.DirDeletedEvent,
                events.DirMovedEvent,
            ],
        )
        observer.start()
        return observer
