"""Rate limiting with a token bucket."""

from __future__ import annotations

import asyncio

from nodeagent.base.aio.clock import Clock


class TokenBucket:
    """Token bucket for *qps* calls per second with bursts of *burst*; a *qps* of 0 disables the limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps, self._burst, self._clock = qps, max(1, burst), clock
        self._tokens = float(self._burst)
        self._updated = clock.now()
        self._turn = asyncio.Lock()

    def try_take(self) -> bool:
        """Consume a token if one is available, and return whether it was."""
        if self._qps <= 0:
            return True
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def take(self) -> None:
        """Wait for a token and consume it; waiters are served in order of arrival."""
        if self._qps <= 0:
            return
        async with self._turn:
            while not self.try_take():
                await self._clock.sleep((1 - self._tokens) / self._qps)

    def _refill(self) -> None:
        now = self._clock.now()
        self._tokens = min(float(self._burst), self._tokens + (now - self._updated) * self._qps)
        self._updated = now
