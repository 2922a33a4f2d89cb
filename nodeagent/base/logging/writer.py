"""Log writer: a dedicated thread writes the lines, so that a slow reader never blocks the event loop.

Setting the descriptor non-blocking would change it for every process that shares the terminal, and writing to a full
pipe would still have to be retried. The caller therefore only appends to a bounded queue. If the reader is too slow
for the bound, lines other than errors are dropped and counted, and their number is logged once there is room again.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from collections.abc import Callable

from nodeagent.base.logging.settings import ByteStream

MAX_QUEUE_BYTES = 2 * 1024 * 1024
ERROR_RESERVE_BYTES = 2 * 1024 * 1024
"""Additional queue size that only errors may use."""
CLOSE_SECONDS = 5.0
"""Time limit for closing while the reader does not read."""
_RETRY_SECONDS = 0.05


class LineBuffer:
    """Buffer of a stream: determines by size and age when its lines must be written. No I/O, no clock.

    spec: type.JSONOptions.infoBufferSize, type.LoggingConfiguration.flushFrequency
    """

    def __init__(self, size_bytes: int, flush_seconds: float) -> None:
        self._size, self._flush_seconds = size_bytes, flush_seconds
        self._lines: list[bytes] = []
        self._held = 0
        self._oldest_at = 0.0

    @property
    def due_at(self) -> float | None:
        """Time at which the buffered lines must be written, or ``None`` without any."""
        return self._oldest_at + self._flush_seconds if self._lines else None

    def add(self, line: bytes, now: float) -> None:
        """Buffer *line*, received at *now*."""
        if not self._lines:
            self._oldest_at = now
        self._lines.append(line)
        self._held += len(line)

    def take(self, now: float, *, everything: bool = False) -> bytes:
        """Return the data to write at *now*; empty if all of it may wait."""
        if not self._lines or not (everything or self._held >= self._size or now >= (self.due_at or 0)):
            return b""
        data = b"".join(self._lines)
        self._lines.clear()
        self._held = 0
        return data


class LineWriter:
    """Writer of lines to a stream, in order, that never blocks the caller.

    :param gap_line: creates the line that reports the number of dropped lines.
    :param buffer_bytes: 0 writes each line immediately; otherwise lines are buffered up to this size or for
    *flush_seconds*.
    """

    def __init__(
        self,
        stream: ByteStream,
        *,
        gap_line: Callable[[int], bytes],
        buffer_bytes: int = 0,
        flush_seconds: float = 5.0,
    ) -> None:
        self._stream, self._gap_line = stream, gap_line
        self._buffer = LineBuffer(buffer_bytes, flush_seconds)
        self._queue: deque[bytes] = deque()
        self._pending_bytes = 0  # Accepted and not yet written to the stream.
        self._accepted = self._settled = self._held = 0  # Number of lines accepted, done, and in the buffer.
        self._flushing = self._closing = False
        self._unreported = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """Number of lines that were dropped or could not be written."""

    def write(self, line: bytes, *, important: bool = False) -> None:
        """Queue *line*; an *important* one may use the reserve."""
        limit = MAX_QUEUE_BYTES + (ERROR_RESERVE_BYTES if important else 0)
        with self._changed:
            if self._closing or self._pending_bytes + len(line) > limit:
                self._drop(1)
                return
            self._queue.append(line)
            self._pending_bytes += len(line)
            self._accepted += 1
            if self._thread is None:  # Started late: a process that logs nothing needs no thread.
                # A daemon, so that a blocked reader cannot keep the process from exiting.
                self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def request_flush(self) -> None:
        """Write buffered lines now, without waiting."""
        with self._changed:
            self._flushing = True
            self._changed.notify_all()

    def flush(self, timeout_seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until all lines queued so far are written; return false on timeout."""
        with self._changed:
            self._flushing = True
            self._changed.notify_all()
            target = self._accepted
            return self._changed.wait_for(lambda: self._settled >= target, timeout_seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS) -> None:
        """Write the remaining lines, within the time limit, and stop the thread. The stream stays open."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while (data := self._wait()) is not None:
            written = self._put(data)
            with self._changed:
                self._pending_bytes -= len(data)
                self._settled += self._held
                if not written:
                    self._drop(self._held)
                self._held = 0
                self._changed.notify_all()

    def _wait(self) -> bytes | None:
        """Return the data to write next, or ``None`` once the writer is closed and everything is written."""
        with self._changed:
            while True:
                now = time.monotonic()
                while self._queue:
                    self._buffer.add(self._queue.popleft(), now)
                    self._held += 1
                if data := self._buffer.take(now, everything=self._flushing or self._closing):
                    return data
                if self._closing:
                    return None
                self._flushing = False
                due = self._buffer.due_at
                self._changed.wait(None if due is None else max(0.0, due - now))

    def _put(self, data: bytes) -> bool:
        try:
            self._send(data)
            with self._changed:
                gap, self._unreported = self._unreported, 0
            if gap:
                self._send(self._gap_line(gap))
        except (OSError, ValueError):  # Reader exited, disk full, stream closed: it cannot be reported.
            return False
        return True

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while True:
            try:
                while rest:
                    if (count := self._stream.write(rest)) is None:
                        raise BlockingIOError(errno.EAGAIN, "would block", 0)
                    rest = rest[count:]
                self._stream.flush()
                return
            except BlockingIOError as blocked:  # Another process made the shared descriptor non-blocking.
                rest = rest[blocked.characters_written :]
                time.sleep(_RETRY_SECONDS)

    def _drop(self, lines: int) -> None:
        self.dropped += lines
        self._unreported += lines
