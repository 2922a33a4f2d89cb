"""Finds what was rotated out of a log while its reader was elsewhere, so that a follower misses no line.

Rotated logs are called ``LOG.<stamp>`` and later ``LOG.<stamp>.gz``; stamps in order are files in order.
"""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_COMPRESSED = ".gz"
_UNFINISHED = ".tmp"
_BEGIN_BYTES = 4096

OpenName = Callable[[str], int]
"""Opens a file or directory by its path beside the log (``.`` is the directory); raises ``OSError``."""


@dataclass(frozen=True, slots=True)
class Look:
    """What stands in the place of a log, and what came between."""

    successor: int | None = None
    """Descriptor of the file now in the log's place; ``None`` while that is still the one being read."""
    missed: Sequence[str] = ()
    """Stamped names of the files between the one being read and the successor, the oldest first."""
    older: frozenset[str] | None = None
    """Stamped names of what was rotated before the file being read; ``None`` when that cannot be told."""


class RotatedLogs:
    """The files beside the log *name*; every method blocks."""

    def __init__(self, open_name: OpenName, name: str) -> None:
        self._open_name, self._name = open_name, name

    def look(self, descriptor: int, older: frozenset[str] | None) -> Look:
        """Look what became of the log that *descriptor* reads.

        :param older: what the last look told of this file; ``None`` before the first.
        """
        before = self._names()
        try:
            found = self._open_name(self._name)
        except OSError:
            return Look(older=older)
        if _identity(found) == _identity(descriptor):
            os.close(found)
            return Look(older=before)  # it was still in place after these were listed
        try:
            return Look(found, self._between(descriptor, found, older))
        except BaseException:
            os.close(found)
            raise

    def open(self, name: str) -> RotatedFile | None:
        """Open the file of a stamped name, compressed by now or not; ``None`` when it is gone."""
        for ending in ("", _COMPRESSED, ""):  # it may be compressed between two tries
            with contextlib.suppress(OSError):
                return RotatedFile(self._open_name(f"{name}{ending}"), compressed=bool(ending))
        return None

    def _between(self, descriptor: int, successor: int, older: frozenset[str] | None) -> list[str]:
        later: list[str] = []
        known = older is not None  # without it, only what is seen to follow ours can be told
        for name in sorted(self._names() - (older or frozenset())):
            file = self.open(name)
            if file is None:
                continue
            try:
                if file.holds_what(successor):
                    break  # rotated as well, meanwhile
                if file.holds_what(descriptor):
                    known, later = True, []
                elif known:
                    later.append(name)
            finally:
                file.close()
        return later

    def _names(self) -> frozenset[str]:
        """Return the stamped names, without the ending of compressed files."""
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
    """A rotated log, read as plain text whether compressed or not."""

    def __init__(self, descriptor: int, *, compressed: bool) -> None:
        self.descriptor, self.compressed = descriptor, compressed
        raw = open(descriptor, "rb")  # noqa: SIM115
        self._file = gzip.GzipFile(fileobj=raw) if compressed else raw
        self._raw = raw

    def read(self, size: int) -> bytes:
        """Return up to *size* bytes; none at the end, or where the file is damaged."""
        try:
            return self._file.read(size)
        except (EOFError, gzip.BadGzipFile):
            return b""

    def holds_what(self, descriptor: int) -> bool:
        """Whether this is the file that *descriptor* has open, or was made from it."""
        if not self.compressed:
            return _identity(self.descriptor) == _identity(descriptor)
        # Many have one size; but lines begin with the time, so no two files begin alike.
        size = os.fstat(descriptor).st_size
        if self._plain_bytes() != size % (1 << 32):
            return False
        begin = os.pread(descriptor, _BEGIN_BYTES, 0)
        same = self.read(len(begin)) == begin
        self._file.seek(0)
        return same

    def _plain_bytes(self) -> int:
        """Return how many bytes it has when not compressed, as its last four bytes tell, up to 4 GiB."""
        end = os.fstat(self.descriptor).st_size
        return int.from_bytes(os.pread(self.descriptor, 4, max(0, end - 4)), "little")

    def close(self) -> None:
        self._file.close()
        self._raw.close()


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino
