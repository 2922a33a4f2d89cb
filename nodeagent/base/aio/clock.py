"""Time as a dependency, so that a test can step it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Monotonic time for lengths, wall time for what users read."""

    def now(self) -> float:
        """Return monotonic seconds; only differences mean anything."""
        ...

    def wall(self) -> datetime:
        """Return the time of day in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait *seconds*; a value of 0 or less yields to other tasks once."""
        ...

    async def sleep_until(self, due: float) -> None:
        """Wait until ``now()`` reaches *due*."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    async def sleep_until(self, due: float) -> None:
        await self.sleep(due - self.now())
