"""Where the event loop is held up, which everything on the node waits for (spec: config.enableContentionProfiling).

The loop gives a sign of life at a fixed beat; a thread of its own looks whether it comes, and when it is late notes
what the loop's thread is at. On only when it is asked for, since both wake up many times a second.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Mapping

from nodeagent_plugins.routes_debug.profile import Stack, stack_of

BEAT_SECONDS = 0.02
LATE_SECONDS = 0.05
MAX_STACKS = 2000


class ContentionProfile:
    """Collects stacks with how often and how long they held the loop up; a background loop."""

    name = "contention profile"

    def __init__(self) -> None:
        self._found: dict[Stack, tuple[int, int]] = {}
        self._last_beat = time.monotonic()
        self._over = threading.Event()

    def stacks(self) -> Mapping[Stack, tuple[int, int]]:
        """Return delays by where they came from: how many, and nanoseconds in all."""
        return dict(self._found)

    async def run(self) -> None:
        self._over.clear()
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
            self._over.set()
            watcher.join(1)

    def _watch(self, loop_thread: int) -> None:
        held_since = 0.0
        looked_at = time.monotonic()
        while not self._over.wait(BEAT_SECONDS):
            now = time.monotonic()
            if now - self._last_beat >= LATE_SECONDS:
                first = held_since != self._last_beat
                since = self._last_beat if first else looked_at
                held_since = self._last_beat
                self._note(loop_thread, first=first, nanoseconds=int((now - since) * 10**9))
            looked_at = now

    def _note(self, loop_thread: int, *, first: bool, nanoseconds: int) -> None:
        frame = sys._current_frames().get(loop_thread)
        if frame is None:
            return
        stack = stack_of(frame)
        if stack in self._found or len(self._found) < MAX_STACKS:
            count, total = self._found.get(stack, (0, 0))
            self._found[stack] = count + first, total + nanoseconds
