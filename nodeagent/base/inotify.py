"""inotify: notifications of the kernel about changes in directories, delivered in the event loop."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
from collections.abc import Callable
from enum import IntFlag
from typing import NamedTuple

_EVENT = struct.Struct("=iIII")
"""``struct inotify_event``: watch, mask, cookie, size of the name."""
_READ_BYTES = 16 * 1024


class Mask(IntFlag):
    """Kinds of event, and options of a watch."""

    MODIFY = 0x2
    CLOSE_WRITE = 0x8
    OPEN = 0x20
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    DELETE_SELF = 0x400
    MOVE_SELF = 0x800
    OVERFLOW = 0x4000
    """Events were lost; of watch -1."""
    IGNORED = 0x8000
    """The watch was removed, because its file was deleted or by :meth:`Inotify.remove`."""
    ONLYDIR = 0x1000000
    ISDIR = 0x40000000
    MOVE = MOVED_FROM | MOVED_TO


class Event(NamedTuple):
    """One event of a watch; *name* is empty if the watched file itself is affected."""

    watch: int
    mask: Mask
    name: str


class Inotify:
    """One inotify instance; create and use it in the event loop.

    :param notify: called with each event.
    :raises OSError: the limit of instances or of open files is exceeded.
    """

    def __init__(self, notify: Callable[[Event], None]) -> None:
        self._notify = notify
        self._library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._checked(self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    def add(self, path: str | os.PathLike[str], mask: Mask) -> int:
        """Watch *path* and return the watch; that of a watched file is changed, and returned again.

        :raises OSError: the file does not exist or cannot be watched.
        """
        return self._checked(self._library.inotify_add_watch(self._descriptor, os.fsencode(path), mask.value), path)

    def remove(self, watch: int) -> None:
        """Remove a watch; one whose file was deleted does not exist any more."""
        self._library.inotify_rm_watch(self._descriptor, watch)

    def close(self) -> None:
        """Close the instance with all of its watches; may be called repeatedly."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> None:
        try:
            content = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        position = 0
        while position < len(content) and self._descriptor >= 0:
            watch, mask, _, size = _EVENT.unpack_from(content, position)
            start = position + _EVENT.size
            position = start + size
            self._notify(Event(watch, Mask(mask), os.fsdecode(content[start:position].rstrip(b"\0"))))

    @staticmethod
    def _checked(result: int, path: str | os.PathLike[str] | None = None) -> int:
        if result < 0:
            number = ctypes.get_errno() or errno.EINVAL
            raise OSError(number, os.strerror(number), path)
        return result
