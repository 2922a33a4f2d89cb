"""Simulated clock of a node: monotonic time of the event loop, and a wall clock that can jump."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from math import inf

START = datetime(2040, 1, 1, tzinfo=UTC)


class SimulatedClock:
    """A :class:`~nodeagent.base.aio.Clock` on the time of an event loop.

    :ivar offset_seconds: difference of the node's wall clock to the time of the other hosts.
    :ivar jumped_at: monotonic time of the last jump of the wall clock.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.offset_seconds = 0.0
        self.jumped_at = -inf

    def now(self) -> float:
        return self._loop.time()

    def wall(self) -> datetime:
        return START + timedelta(seconds=self._loop.time() + self.offset_seconds)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward, or back by a negative number of seconds."""
        self.offset_seconds += seconds
        self.jumped_at = self.now()

    def true_time(self) -> datetime:
        """Return the time of day according to the other hosts."""
        return START + timedelta(seconds=self._loop.time())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    async def sleep_until(self, due: float) -> None:
        await self.sleep(due - self._loop.time())
