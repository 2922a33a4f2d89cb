"""Watch of the manifest directory."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from pathlib import Path

from nodeagent.base.inotify import Event, Inotify, Mask
from nodeagent_plugins.pod_source_file.files import is_manifest

_log = logging.getLogger(__name__)

_MASK = (
    Mask.CREATE | Mask.CLOSE_WRITE | Mask.MOVE | Mask.DELETE | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR
)  # Created: also symbolic links.


class Watch:
    """Notifies of changes in a directory, or in the directory of a file."""

    def __init__(self, path: Path, notify: Callable[[], None]) -> None:
        self._path, self._notify = path, notify
        self._inotify: Inotify | None = None
        self._watched: tuple[str, int, int] | None = None
        self._failing = False
        self._deleted: set[str] = set()

    async def renew(self) -> bool:
        """Watch the directory that is currently at the path, or its parent; return whether that succeeded.

        Cheap if it is unchanged.
        """
        try:
            directory = await asyncio.to_thread(_directory, self._path)
            if directory != self._watched:
                self.stop()
                self._inotify = Inotify(self._changed)
                self._inotify.add(directory[0], _MASK)
                self._watched = directory
        except OSError as error:
            self.stop()
            if not self._failing and error.errno != errno.ENOENT:
                shown = {"path": str(self._path), "err": str(error)}
                _log.warning("Failed to watch config path, polling it", extra=shown)
            self._failing = True
        else:
            self._failing = False
        return not self._failing

    def stop(self) -> None:
        """Stop the watch."""
        inotify, self._inotify, self._watched = self._inotify, None, None
        if inotify is not None:
            inotify.close()

    def take_deleted(self) -> set[str]:
        """Return the names of the files that were deleted or renamed since the last call."""
        deleted, self._deleted = self._deleted, set()
        return deleted

    def _changed(self, event: Event) -> None:
        if event.mask & Mask.IGNORED:
            self._watched = None  # The directory was deleted; a new one may have the same inode.
        if event.mask & (Mask.DELETE | Mask.MOVED_FROM) and not event.mask & Mask.ISDIR:
            self._deleted.add(event.name)
        if not event.name or event.mask & Mask.ISDIR or is_manifest(event.name):
            self._notify()


def _directory(path: Path) -> tuple[str, int, int]:
    """Return the directory to watch and its identity. Blocking.

    :raises OSError: it does not exist.
    """
    directory = (path if path.is_dir() else path.parent).resolve()
    status = directory.stat()
    return str(directory), status.st_dev, status.st_ino
