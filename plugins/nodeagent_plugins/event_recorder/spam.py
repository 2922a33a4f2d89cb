"""Limit on the events about one object, so that one that is always unhealthy does not fill the API server. No I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from nodeagent.base.aio import Clock

BURST = 25
REFILL_SECONDS = 300.0
"""The time after which one more event about the same object may be sent."""
CAPACITY = 4096


class SpamFilter:
    """A token bucket per object; the least recently used ones are evicted, which fills them again."""

    def __init__(self, clock: Clock, capacity: int = CAPACITY) -> None:
        self._clock, self._capacity = clock, capacity
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        """Tokens by object, with the time at which they were counted."""

    def accept(self, subject: Hashable) -> bool:
        """Take a token of *subject*; return whether there was one."""
        now = self._clock.now()
        tokens, counted_at = self._buckets.pop(subject, (BURST, now))
        tokens = min(BURST, tokens + (now - counted_at) / REFILL_SECONDS)
        accepted = tokens >= 1
        self._buckets[subject] = (tokens - 1 if accepted else tokens, now)
        if len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
        return accepted
