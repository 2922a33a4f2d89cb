"""Rate limiting with a token bucket, or with one per key.

Custom, since rate limiters on PyPI do not take the injected clock.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Hashable
from itertools import count

from cachetools import LRUCache

from nodeagent.base.aio.clock import Clock


class TokenBucket:
    """Token bucket for *qps* calls per second with bursts of *burst*; a *qps* of 0 disables the limit."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps, self._burst, self._clock = qps, max(1, burst), clock
        self._tokens = float(self._burst)
        self._updated = clock.now()
        self._waiting: list[tuple[float, int, asyncio.Event]] = []
        self._numbers = count()

    def try_take(self) -> bool:
        """Consume a token if one is available, and return whether it was."""
        if self._qps <= 0:
            return True
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def take(self, patience_seconds: float = 0.0) -> None:
        """Wait for a token and consume it; waiters are served in order of arrival.

        :param patience_seconds: other waiters that arrive up to this time later are served first.
        """
        if not self._waiting and self.try_take():
            return
        own = (self._clock.now() + patience_seconds, next(self._numbers), asyncio.Event())
        insort(self._waiting, own)
        try:
            while True:
                if self._waiting[0] is not own:
                    own[2].clear()
                    await own[2].wait()
                elif self.try_take():
                    return
                else:
                    await self._clock.sleep((1 - self._tokens) / self._qps)
        finally:
            self._waiting.remove(own)
            if self._waiting:
                self._waiting[0][2].set()

    def _refill(self) -> None:
        now = self._clock.now()
        self._tokens = min(float(self._burst), self._tokens + (now - self._updated) * self._qps)
        self._updated = now


class TokenBuckets:
    """A token bucket per key that is full at first; the least recently used ones are evicted, which fills them again.

    :param qps: tokens that are added to a bucket per second.
    :param burst: tokens in a full bucket.
    """

    def __init__(self, qps: float, burst: int, clock: Clock, capacity: int) -> None:
        self._qps, self._burst, self._clock = qps, float(burst), clock
        self._buckets: LRUCache[Hashable, tuple[float, float]] = LRUCache(capacity)
        """Tokens by key, with the time at which they were counted."""

    def try_take(self, key: Hashable) -> bool:
        """Consume a token of *key* if one is available, and return whether it was."""
        now = self._clock.now()
        tokens, counted_at = self._buckets.get(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - counted_at) * self._qps)
        taken = tokens >= 1
        self._buckets[key] = (tokens - 1 if taken else tokens, now)
        return taken

    def forget(self, key: Hashable) -> None:
        """Drop the bucket of *key*, which fills it again."""
        self._buckets.pop(key, None)
