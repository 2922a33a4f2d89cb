"""Writes what a container says in the log format of CRI: ``TIME STREAM F|P TEXT``, a line each."""

from __future__ import annotations

import os
import time

MAX_LINE_BYTES = 16 * 1024
"""A longer line is cut into pieces tagged ``P``; its last piece is tagged ``F``."""


class CriLog:
    """The log file of one container.

    A line is written once it is complete, or as long as a piece may be; what has no end of line when the stream
    ends is written as a full line. Text that the disk has no room for is lost: it must not hold up the container.

    :param path: the log file; empty writes none.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = -1
        self._rest: dict[str, bytes] = {}
        self.reopen()

    def reopen(self) -> None:
        """Go on in a new file at the same path, because the old one was moved."""
        if not self._path:
            return
        fresh = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if self._file >= 0:
            os.close(self._file)
        self._file = fresh

    def write(self, stream: str, data: bytes) -> None:
        """Take *data* of *stream*; no data is the stream's end."""
        if self._file < 0:
            return
        pending = self._rest.pop(stream, b"") + data
        *lines, rest = pending.split(b"\n")
        head = _timestamp() + b" " + stream.encode()
        written = []
        for line in lines:
            whole = range(0, max(1, len(line)), MAX_LINE_BYTES)
            for start in whole:
                tag = b" F " if start + MAX_LINE_BYTES >= len(line) else b" P "
                written.append(head + tag + line[start : start + MAX_LINE_BYTES])
        while len(rest) >= MAX_LINE_BYTES:
            written.append(head + b" P " + rest[:MAX_LINE_BYTES])
            rest = rest[MAX_LINE_BYTES:]
        if rest and not data:
            written.append(head + b" F " + rest)
        elif rest:
            self._rest[stream] = rest
        if written:
            self._append(b"\n".join(written) + b"\n")

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, text: bytes) -> None:
        try:
            while text:
                text = text[os.write(self._file, text) :]
        except OSError:
            return


def _timestamp() -> bytes:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % nanoseconds
