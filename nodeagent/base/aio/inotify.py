"""Notification of changes in directories by the kernel (inotify), for the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
from collections.abc import Callable
from typing import NamedTuple

OPEN, MODIFY, CLOSE_WRITE = 0x20, 0x2, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF = 0x400, 0x800
OVERFLOW = 0x4000
"""Events were lost, so anything may have changed."""
IGNORED = 0x8000
"""The watch has ended, because its directory was deleted or unmounted."""
ONLY_DIRECTORY = 0x01000000
IS_DIRECTORY = 0x40000000

_HEAD = struct.Struct("iIII")
_READ_BYTES = 64 * 1024
_libc = ctypes.CDLL(None, use_errno=True)


class Change(NamedTuple):
    """A change.

    :ivar watch: number that :meth:`Inotify.watch` returned; -1 after an overflow.
    :ivar mask: the kind, such as :data:`CREATE`.
    :ivar name: name in the directory; empty for a change of the directory itself.
    """

    watch: int
    mask: int
    name: str


class Inotify:
    """Watches of files and directories; *notify* is called in the event loop with each change.

    :raises OSError: the limit of instances is reached.
    """

    def __init__(self, notify: Callable[[Change], None]) -> None:
        self._notify, self._loop = notify, asyncio.get_running_loop()
        self._file = _checked(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        self._loop.add_reader(self._file, self._read)

    def watch(self, path: str, mask: int) -> int:
        """Watch *path* and return the number of the watch, the same one for the same directory. May block.

        :raises OSError: the path does not exist, or the limit of watches is reached.
        """
        return _checked(_libc.inotify_add_watch(self._file, os.fsencode(path), ctypes.c_uint32(mask)), path)

    def unwatch(self, watch: int) -> None:
        """End a watch; one that has ended is ignored."""
        _libc.inotify_rm_watch(self._file, watch)

    def close(self) -> None:
        """End all watches. May be called again."""
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _read(self) -> None:
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._file, _READ_BYTES)
        position = 0
        while position < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, position)
            position += _HEAD.size + length
            self._notify(Change(watch, mask, os.fsdecode(data[position - length : position].rstrip(b"\0"))))


def _checked(result: int, path: str | None = None) -> int:
    """Return the result of a call.

    :raises OSError: it failed.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result
