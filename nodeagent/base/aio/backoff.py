"""Exponential backoff between attempts.

Custom, since packages for retries wrap functions, while callers need the delay itself, to display it or to wait for
another event.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable

from nodeagent.base.aio.clock import Clock


class Backoff:
    """Delays that grow from *initial_seconds* to *max_seconds*, each drawn from ``[d, d·(1+jitter))``."""

    def __init__(
        self,
        initial_seconds: float,
        max_seconds: float,
        *,
        factor: float = 2.0,
        jitter: float = 0.1,
        random_source: Callable[[], float] = random.random,
    ) -> None:
        self._initial, self._max, self._factor, self._jitter = initial_seconds, max_seconds, factor, jitter
        self._random = random_source
        self._next = initial_seconds

    def next(self) -> float:
        """Return the current delay in seconds and increase the next one."""
        pause = self._next
        self._next = min(self._next * self._factor, self._max)
        return pause * (1 + self._jitter * self._random())

    def reset(self) -> None:
        """Return to the initial delay, after a success."""
        self._next = self._initial


class BackoffTable:
    """One doubling delay per key, reset after twice the maximum without a failure.

    Container restarts and image pulls: 10 s, doubling to 300 s. Not a ``cachetools.TTLCache``, which would evict keys
    that are in back-off when it is full.
    """

    def __init__(self, clock: Clock, initial_seconds: float = 10.0, max_seconds: float = 300.0) -> None:
        self._clock, self._initial, self._max = clock, initial_seconds, max_seconds
        self._entries: dict[Hashable, tuple[float, float]] = {}  # key -> (delay, last update)

    def step(self, key: Hashable) -> float:
        """Record a failure of *key* and return its delay in seconds."""
        pause, updated = self._entries.get(key, (0.0, 0.0))
        now = self._clock.now()
        expired = pause and now - updated > 2 * self._max
        pause = min(pause * 2, self._max) if pause and not expired else self._initial
        self._entries[key] = (pause, now)
        return pause

    def pause(self, key: Hashable) -> float:
        """Return the delay of *key* in seconds, 0 without a recorded failure."""
        return self._entries.get(key, (0.0, 0.0))[0]

    def remaining(self, key: Hashable, since: float | None = None) -> float:
        """Return the seconds left of the delay, which starts at monotonic time *since* or at the last step."""
        pause, updated = self._entries.get(key, (0.0, 0.0))
        start = updated if since is None else since
        return max(0.0, start + pause - self._clock.now())

    def forget(self, key: Hashable) -> None:
        """Drop *key*."""
        self._entries.pop(key, None)

    def collect(self) -> None:
        """Drop entries without a failure for twice the maximum."""
        limit = self._clock.now() - 2 * self._max
        for key in [key for key, (_, updated) in self._entries.items() if updated < limit]:
            del self._entries[key]
