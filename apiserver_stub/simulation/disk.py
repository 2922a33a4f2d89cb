"""Simulated disk of the database: SQLite runs on files in memory, and fails at any byte that it writes."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodeagent.base.simulation.loop import PROCESS, ProcessCrashed

_HEADER_BYTES = 32
_SECTOR_BYTES = 512
_COMPLETE = 0.3
"""Probability that a crash occurs after the last byte was written."""
Files = tuple[bytes, bytes]
"""Content of the database and of its write-ahead log."""


class DatabaseDisk:
    """The files of the database.

    A crash in a function that writes leaves a part of the written bytes. SQLite orders these writes by syncs: a new
    header of the write-ahead log before its frames, and the log before the database.

    :ivar full: functions that enlarge a file fail.
    :ivar crash_in: number of functions that write after which the process crashes in one.
    :ivar tears: the crash is a loss of power: sectors are written in any order.
    """

    def __init__(self, seed: object, path: Path) -> None:
        self.full, self.tears = False, False
        self.crash_in: int | None = None
        self.crashes = self.failures = 0
        self._path, self._wal = path, path.with_name(path.name + "-wal")
        self._chance = random.Random(f"{seed}/database")
        self._remaining: Files | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that writes to the database, with the faults of the disk."""
        if not PROCESS.get():
            return function(*arguments)
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in <= 0:
                self.crash_in = None
                return self._crash(function, *arguments)
        if not self.full:
            return function(*arguments)
        with self._limited():
            return function(*arguments)

    def log_bytes(self) -> int:
        """Return the size of the write-ahead log."""
        return self._wal.stat().st_size if self._wal.exists() else 0

    def files(self) -> Files:
        """Return what remains of the files if the process ends now."""
        remaining, self._remaining = self._remaining, None
        return remaining or self._read()

    def restore(self, files: Files) -> None:
        """Replace the files, after the connections of the process that ended were closed."""
        self.crash_in = None
        self._path.with_name(self._path.name + "-shm").unlink(missing_ok=True)
        for path, content in zip((self._path, self._wal), files, strict=True):
            if content:
                path.write_bytes(content)
            else:
                path.unlink(missing_ok=True)

    def _read(self) -> Files:
        database, log = (path.read_bytes() if path.exists() else b"" for path in (self._path, self._wal))
        return database, log

    def _crash(self, function: Callable[..., Any], *arguments: Any) -> Any:
        before = self._read()
        function(*arguments)
        after = self._read()
        self.crashes += 1
        if before[0] != after[0]:  # The log is retained until the database was synced.
            self._remaining = self._mixed(before[0], after[0]), before[1]
        elif not after[1]:
            self._remaining = self._chance.choice((before, after))
        elif after[1][:_HEADER_BYTES] == before[1][:_HEADER_BYTES]:
            self._remaining = after[0], self._mixed(before[1], after[1])
        elif self._chance.random() < 0.2:
            self._remaining = before
        else:  # The new header is synced before the first frame is written.
            old = after[1][:_HEADER_BYTES] + before[1][_HEADER_BYTES:]
            self._remaining = after[0], self._mixed(old, after[1])
        raise ProcessCrashed

    def _mixed(self, before: bytes, after: bytes) -> bytes:
        """Return a part of the changes from *before* to *after*, or all."""
        if self._chance.random() < _COMPLETE:
            return after
        if not self.tears:
            cut = self._chance.randrange(len(after) + 1)
            return after[:cut] + before[cut:]
        longest = max(len(before), len(after))
        size = self._chance.choice((len(before), longest, self._chance.randrange(len(before), longest + 1)))
        old = before.ljust(size, b"\0")
        return b"".join(
            (after if self._chance.random() < 0.5 else old)[start : start + _SECTOR_BYTES]
            for start in range(0, size, _SECTOR_BYTES)
        )[:size]

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Limit the size of files to about the current one; the system fails writes beyond it."""
        size = self.log_bytes()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + self._chance.randrange(9000), hard))
        try:
            yield
        except Exception:
            self.failures += 1
            raise
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
