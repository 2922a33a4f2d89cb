"""Output of an executable, written to the agent's log at a limited rate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from nodeagent.base.aio import Clock, TokenBucket

_MAX_LINE_BYTES = 4096
_CHUNK = 16384
_CHUNKS_PER_SECOND = 128
_BURST_SECONDS = 10

_log = logging.getLogger(__name__)


class OutputLog:
    """Logs the lines of one plugin; lines above the rate are dropped and counted.

    :param emit: called with each line instead of logging it.
    """

    def __init__(
        self, plugin: str, lines_per_second: float, clock: Clock, emit: Callable[[str], None] | None = None
    ) -> None:
        self._plugin, self._emit, self._clock = plugin, emit or self._log, clock
        self._bucket = TokenBucket(lines_per_second, int(lines_per_second * _BURST_SECONDS), clock)
        self._dropped = 0
        self.last = ""
        """The last line that was not dropped."""

    async def copy(self, reader: asyncio.StreamReader) -> None:
        """Log the lines of *reader* until its end."""
        rest, chunks = b"", TokenBucket(_CHUNKS_PER_SECOND, _CHUNKS_PER_SECOND, self._clock)
        while chunk := await reader.read(_CHUNK):
            await chunks.take()  # A plugin that writes more is blocked, so that it does not use the agent's CPU time.
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.write(line)
            while len(rest) > _MAX_LINE_BYTES:
                self.write(rest[:_MAX_LINE_BYTES])
                rest = rest[_MAX_LINE_BYTES:]
        if rest:
            self.write(rest)

    def write(self, line: bytes) -> None:
        """Log one line."""
        if not self._bucket.try_take():
            self._dropped += 1
            return
        if self._dropped:
            _log.warning("Dropped output of plugin", extra={"plugin": self._plugin, "lines": self._dropped})
            self._dropped = 0
        text = line[:_MAX_LINE_BYTES].decode(errors="replace").rstrip("\r")
        if text:
            self.last = text
            self._emit(text)

    def _log(self, text: str) -> None:
        _log.info("Output of plugin", extra={"plugin": self._plugin, "line": text})
