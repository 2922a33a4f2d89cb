"""Writer of container output in the CRI log format: lines of ``TIME STREAM F|P TEXT``."""

from __future__ import annotations

import os
import time

MAX_LINE_BYTES = 16 * 1024
"""A longer line is split into parts tagged ``P``; the last part is tagged ``F``."""


class CriLog:
    """The log file of one container.

    A line is written once it is complete or has reached the maximum length; an incomplete line at the end of the stream
    is written as a complete one. Output is dropped if the disk is full, because it must not block the container.

    :param path: the log file; empty disables the log.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        self._rest: dict[str, bytes] = {}
        self.reopen()

    def reopen(self) -> None:
        """Continue in a new file at the same path, because the previous one was renamed."""
        if not self._path:
            return
        fresh = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if self._file is not None:
            os.close(self._file)
        self._file = fresh

    def write(self, stream: str, data: bytes) -> None:
        """Write *data* of *stream*; empty data is the end of the stream."""
        if self._file is None:
            return
        pending = self._rest.pop(stream, b"") + data
        head = _timestamp() + b" " + stream.encode()
        end = pending.rfind(b"\n")
        text = b""
        if end >= 0:
            text = _full_lines(pending[:end], head)
            pending = pending[end + 1 :]
        while len(pending) >= MAX_LINE_BYTES:
            text += head + b" P " + pending[:MAX_LINE_BYTES] + b"\n"
            pending = pending[MAX_LINE_BYTES:]
        if pending and not data:
            text += head + b" F " + pending + b"\n"
        elif pending:
            self._rest[stream] = pending
        self._append(self._file, text)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @staticmethod
    def _append(file: int, text: bytes) -> None:
        try:
            while text:
                text = text[os.write(file, text) :]
        except OSError:
            return


def _full_lines(lines: bytes, head: bytes) -> bytes:
    """Return *lines*, whose last one has no line break, in the log format."""
    begin = head + b" F "
    at = 0
    while len(lines) - at > MAX_LINE_BYTES:
        end = lines.rfind(b"\n", at, at + MAX_LINE_BYTES + 1)
        if end < 0:
            return b"".join(_pieces(line, head) for line in lines.split(b"\n"))
        at = end + 1
    return begin + lines.replace(b"\n", b"\n" + begin) + b"\n"  # Fast path: no line needs to be split.


def _pieces(line: bytes, head: bytes) -> bytes:
    text = b""
    while len(line) > MAX_LINE_BYTES:
        text += head + b" P " + line[:MAX_LINE_BYTES] + b"\n"
        line = line[MAX_LINE_BYTES:]
    return text + head + b" F " + line + b"\n"


def _timestamp() -> bytes:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % nanoseconds
