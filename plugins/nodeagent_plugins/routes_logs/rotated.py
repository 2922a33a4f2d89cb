"""Detection of rotated log files, so that a follower misses no line.

Rotated logs are named ``LOG.<stamp>`` and later ``LOG.<stamp>.gz``; stamps sort by time.
"""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Callable, Sequence

from nodeagent.base.structs import Struct

_COMPRESSED = ".gz"
_UNFINISHED = ".tmp"
_BEGIN_BYTES = 4096

OpenName = Callable[[str], int]
"""Opens a path relative to the log's directory (``.`` is the directory); raises ``OSError``."""


class RotationCheck(Struct, frozen=True):
    """Successor of a log, and the files between."""

    successor: int | None = None
    """Descriptor of the current log file; ``None`` if it is the one being read."""
    missed: Sequence[str] = ()
    """Stamped names of the files between the one being read and the successor, oldest first."""
    older: frozenset[str] | None = None
    """Stamped names of the files before the one being read; ``None`` if unknown."""


class RotatedLogs:
    """Rotated files of the log *name*; every method blocks."""

    def __init__(self, open_name: OpenName, name: str) -> None:
        self._open_name, self._name = open_name, name

    def check(self, descriptor: int, older: frozenset[str] | None) -> RotationCheck:
        """Check whether the log that *descriptor* reads was rotated.

        :param older: the older files from the last check; ``None`` for the first check.
        """
        before = self._names()
        try:
            found = self._open_name(self._name)
        except OSError:
            return RotationCheck(older=older)
        if _identity(found) == _identity(descriptor):
            os.close(found)
            return RotationCheck(older=before)  # Not rotated when these were listed.
        try:
            return RotationCheck(found, self._between(descriptor, found, older))
        except BaseException:
            os.close(found)
            raise

    def open(self, name: str) -> RotatedFile | None:
        """Open the file with a stamped name, compressed or not; ``None`` if it was deleted."""
        for ending in ("", _COMPRESSED, ""):  # The file may be compressed between two attempts.
            with contextlib.suppress(OSError):
                return RotatedFile(self._open_name(f"{name}{ending}"), compressed=bool(ending))
        return None

    def _between(self, descriptor: int, successor: int, older: frozenset[str] | None) -> list[str]:
        later: list[str] = []
        known = older is not None  # Otherwise only the files after ours can be identified.
        for name in sorted(self._names() - (older or frozenset())):
            file = self.open(name)
            if file is None:
                continue
            try:
                if file.holds_what(successor):
                    break  # The successor was rotated concurrently.
                if file.holds_what(descriptor):
                    known, later = True, []
                elif known:
                    later.append(name)
            finally:
                file.close()
        return later

    def _names(self) -> frozenset[str]:
        """Return the stamped names, without the suffix of compressed files."""
        try:
            directory = self._open_name(".")
        except OSError:
            return frozenset()
        try:
            found = os.listdir(directory)  # noqa: PTH208
        finally:
            os.close(directory)
        prefix = f"{self._name}."
        return frozenset(
            name.removesuffix(_COMPRESSED)
            for name in found
            if name.startswith(prefix) and not name.endswith(_UNFINISHED)
        )


class RotatedFile:
    """A rotated log, read as plain text even if it is compressed."""

    def __init__(self, descriptor: int, *, compressed: bool) -> None:
        self.descriptor, self.compressed = descriptor, compressed
        raw = open(descriptor, "rb")  # noqa: SIM115
        self._file = gzip.GzipFile(fileobj=raw) if compressed else raw
        self._raw = raw

    def read(self, size: int) -> bytes:
        """Return up to *size* bytes; empty at the end, or if the file is damaged."""
        try:
            return self._file.read(size)
        except (EOFError, gzip.BadGzipFile):
            return b""

    def holds_what(self, descriptor: int) -> bool:
        """Return whether this is the open file of *descriptor*, or its compressed copy."""
        if not self.compressed:
            return _identity(self.descriptor) == _identity(descriptor)
        # Files can have equal sizes, but each starts with a different time.
        size = os.fstat(descriptor).st_size
        if self._plain_bytes() != size % (1 << 32):
            return False
        begin = os.pread(descriptor, _BEGIN_BYTES, 0)
        same = self.read(len(begin)) == begin
        self._file.seek(0)
        return same

    def _plain_bytes(self) -> int:
        """Return the uncompressed size from the last four bytes of the file, up to 4 GiB."""
        end = os.fstat(self.descriptor).st_size
        return int.from_bytes(os.pread(self.descriptor, 4, max(0, end - 4)), "little")

    def close(self) -> None:
        self._file.close()
        self._raw.close()


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino
