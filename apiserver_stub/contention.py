"""Where the event loop is held up while others wait for it (spec: opt.contention-profiling)."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter

from apiserver_stub.profiling import Stack, encode, stack_of

_INTERVAL_SECONDS = 0.005
KINDS = (("contentions", "count"), ("delay", "nanoseconds"))


class Contention:
    """Asks the loop for a sign of life over and over, and looks at its stack when none comes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._loop_thread = loop, threading.get_ident()
        self._alive = threading.Event()
        self._end = threading.Event()
        self._started = time.time_ns()
        self._found: Counter[Stack] = Counter()
        self._thread = threading.Thread(target=self._watch, name="contention-profiler", daemon=True)
        self._thread.start()

    def profile(self) -> bytes:
        """Return what was found since the start."""
        length = time.time_ns() - self._started
        return encode(Counter(self._found), self._started, length, _INTERVAL_SECONDS, KINDS)

    async def close(self) -> None:
        """End the watching."""
        self._end.set()
        self._alive.set()
        await asyncio.to_thread(self._thread.join)

    def _watch(self) -> None:
        while not self._end.wait(_INTERVAL_SECONDS):
            self._alive.clear()
            try:
                self._loop.call_soon_threadsafe(self._alive.set)
            except RuntimeError:  # the loop is closed
                return
            while not self._alive.wait(_INTERVAL_SECONDS) and not self._end.is_set():
                frame = sys._current_frames().get(self._loop_thread)
                if frame is not None:
                    self._found[stack_of(frame)] += 1
