"""Clock interface; tests substitute a clock that they advance."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

TIMER_SECONDS = 0.001
"""Resolution of the timers of uvloop, which end up to this time early."""


class Clock(Protocol):
    """Monotonic time for durations, wall time for timestamps."""

    def now(self) -> float:
        """Return monotonic seconds; only differences are meaningful."""
        ...

    def wall(self) -> datetime:
        """Return the time of day in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait at least *seconds*; a value of 0 or less yields to other tasks once."""
        ...

    async def sleep_until(self, due: float) -> None:
        """Wait until ``now()`` reaches *due*."""
        ...


class SystemClock:
    """Clock of the operating system."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        due = self.now() + seconds
        await asyncio.sleep(max(0.0, seconds))
        if (left := due - self.now()) > 0:
            await self.sleep(max(left, TIMER_SECONDS))

    async def sleep_until(self, due: float) -> None:
        await self.sleep(due - self.now())
