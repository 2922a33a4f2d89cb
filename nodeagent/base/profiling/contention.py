"""Contention profile: stacks that block the event loop.

A task of the loop records a heartbeat; a dedicated thread checks it and, when it is late, samples the stack of the
loop's thread. Both run many times per second, so the profile is enabled only on request.

Custom, since Python does not report contention and profilers sample only CPU or wall time.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Mapping

from nodeagent.base.profiling.encoding import Stack, stack_of

BEAT_SECONDS = 0.02
LATE_SECONDS = 0.05
MAX_STACKS = 2000


class ContentionProfile:
    """Background loop that counts the delays of the event loop and their time by stack."""

    name = "contention profile"

    def __init__(self) -> None:
        self._found: dict[Stack, tuple[int, int]] = {}
        self._last_beat = time.monotonic()
        self._stopped = threading.Event()

    def stacks(self) -> Mapping[Stack, tuple[int, int]]:
        """Return number and total nanoseconds of the delays by stack."""
        return dict(self._found)

    async def run(self) -> None:
        """Record heartbeats until cancelled."""
        self._stopped.clear()
        self._last_beat = time.monotonic()
        watcher = threading.Thread(
            target=self._watch, args=(threading.get_ident(),), name="contention-profile", daemon=True
        )
        watcher.start()
        try:
            while True:
                self._last_beat = time.monotonic()
                await asyncio.sleep(BEAT_SECONDS)
        finally:
            self._stopped.set()
            watcher.join(1)

    def _watch(self, loop_thread: int) -> None:
        held_since = 0.0
        checked_at = time.monotonic()
        while not self._stopped.wait(BEAT_SECONDS):
            now = time.monotonic()
            if now - self._last_beat >= LATE_SECONDS:
                first = held_since != self._last_beat
                since = self._last_beat if first else checked_at
                held_since = self._last_beat
                self._record(loop_thread, first=first, nanoseconds=int((now - since) * 10**9))
            checked_at = now

    def _record(self, loop_thread: int, *, first: bool, nanoseconds: int) -> None:
        frame = sys._current_frames().get(loop_thread)
        if frame is None:
            return
        stack = stack_of(frame)
        if stack in self._found or len(self._found) < MAX_STACKS:
            count, total = self._found.get(stack, (0, 0))
            self._found[stack] = count + first, total + nanoseconds
