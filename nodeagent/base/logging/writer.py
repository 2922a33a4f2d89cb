"""Lines leave through a thread of their own, so that a slow reader never holds up the event loop.

Setting the descriptor non-blocking would change it for every process that shares the terminal, and a full pipe would
still have to be waited for somewhere. So the caller only appends to a bounded queue. When the reader is too slow for
the bound, lines that are no errors are left out, counted, and the gap is named in the log once there is room again.
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
"""Room beyond the queue that only errors may use."""
CLOSE_SECONDS = 5.0
"""How long closing waits for a reader that does not read."""
_RETRY_SECONDS = 0.05


class LineBuffer:
    """Decides when lines of a buffered stream must go: at a size, or at an age. No I/O, no clock.

    spec: type.JSONOptions.infoBufferSize, type.LoggingConfiguration.flushFrequency
    """

    def __init__(self, size_bytes: int, flush_seconds: float) -> None:
        self._size, self._flush_seconds = size_bytes, flush_seconds
        self._lines: list[bytes] = []
        self._held = 0
        self._oldest_at = 0.0

    @property
    def due_at(self) -> float | None:
        """When the held lines must go, or ``None`` when there are none."""
        return self._oldest_at + self._flush_seconds if self._lines else None

    def add(self, line: bytes, now: float) -> None:
        """Hold *line*, which came at *now*."""
        if not self._lines:
            self._oldest_at = now
        self._lines.append(line)
        self._held += len(line)

    def take(self, now: float, *, everything: bool = False) -> bytes:
        """Return what must be written at *now*; empty when all of it may wait."""
        if not self._lines or not (everything or self._held >= self._size or now >= (self.due_at or 0)):
            return b""
        data = b"".join(self._lines)
        self._lines.clear()
        self._held = 0
        return data


class LineWriter:
    """Writes lines to a stream in the order given, without ever making the caller wait.

    :param gap_line: makes the line that names how many were left out.
    :param buffer_bytes: 0 writes each line at once; otherwise lines wait until that many bytes are there or
        *flush_seconds* have passed.
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
        self._pending_bytes = 0  # accepted and not yet with the stream
        self._accepted = self._settled = self._held = 0  # lines ever taken, done with, and in the buffer
        self._flushing = self._closing = False
        self._unreported = 0
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """How many lines were left out or could not be written."""

    def write(self, line: bytes, *, important: bool = False) -> None:
        """Queue *line*; an *important* one still finds room when others do not."""
        limit = MAX_QUEUE_BYTES + (ERROR_RESERVE_BYTES if important else 0)
        with self._wake:
            if self._closing or self._pending_bytes + len(line) > limit:
                self._drop(1)
                return
            self._queue.append(line)
            self._pending_bytes += len(line)
            self._accepted += 1
            if self._thread is None:  # started late: a program that logs nothing has no thread for it
                # A daemon, so that a reader that hangs for good cannot keep the program from ending.
                self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
                self._thread.start()
            self._wake.notify_all()

    def request_flush(self) -> None:
        """Have buffered lines written now, without waiting for it."""
        with self._wake:
            self._flushing = True
            self._wake.notify_all()

    def flush(self, timeout_seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until all that was queued before is written; false when that took too long."""
        with self._wake:
            self._flushing = True
            self._wake.notify_all()
            target = self._accepted
            return self._wake.wait_for(lambda: self._settled >= target, timeout_seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS) -> None:
        """Write what is left, within the limit, and end the thread. The stream stays open: it is its owner's."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while (data := self._wait()) is not None:
            written = self._put(data)
            with self._wake:
                self._pending_bytes -= len(data)
                self._settled += self._held
                if not written:
                    self._drop(self._held)
                self._held = 0
                self._wake.notify_all()

    def _wait(self) -> bytes | None:
        """Return what is to be written next, or ``None`` once all is written and the writer closes."""
        with self._wake:
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
                self._wake.wait(None if due is None else max(0.0, due - now))

    def _put(self, data: bytes) -> bool:
        try:
            self._send(data)
            with self._wake:
                gap, self._unreported = self._unreported, 0
            if gap:
                self._send(self._gap_line(gap))
        except (OSError, ValueError):  # reader gone, disk full, stream closed: there is no place left to tell it
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
            except BlockingIOError as blocked:  # another process made the shared descriptor non-blocking
                rest = rest[blocked.characters_written :]
                time.sleep(_RETRY_SECONDS)

    def _drop(self, lines: int) -> None:
        self.dropped += lines
        self._unreported += lines
