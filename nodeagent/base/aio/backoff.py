"""Growing pauses between attempts."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable

from nodeagent.base.aio.clock import Clock


class Backoff:
    """Pauses that double from *initial_seconds* to *max_seconds*, each drawn from ``[d, d·(1+jitter))``."""

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
        """Return the pause to make now and grow the one after it."""
        pause = self._next
        self._next = min(self._next * self._factor, self._max)
        return pause * (1 + self._jitter * self._random())

    def reset(self) -> None:
        """Start over after a success."""
        self._next = self._initial


class BackoffTable:
    """One doubling pause a key, forgotten after twice the maximum without an entry.

    Restart and image pull back-off: 10 s doubling to 300 s.
    """

    def __init__(self, clock: Clock, initial_seconds: float = 10.0, max_seconds: float = 300.0) -> None:
        self._clock, self._initial, self._max = clock, initial_seconds, max_seconds
        self._entries: dict[Hashable, tuple[float, float]] = {}  # key -> (pause, last update)

    def step(self, key: Hashable) -> float:
        """Note one more failure of *key* and return its pause in seconds."""
        pause, updated = self._entries.get(key, (0.0, 0.0))
        now = self._clock.now()
        expired = pause and now - updated > 2 * self._max
        pause = min(pause * 2, self._max) if pause and not expired else self._initial
        self._entries[key] = (pause, now)
        return pause

    def pause(self, key: Hashable) -> float:
        """Return the pause of *key* in seconds, 0 when none is noted."""
        return self._entries.get(key, (0.0, 0.0))[0]

    def remaining(self, key: Hashable, since: float | None = None) -> float:
        """Return how many seconds of the pause are left, counted from monotonic *since* or the last step."""
        pause, updated = self._entries.get(key, (0.0, 0.0))
        start = updated if since is None else since
        return max(0.0, start + pause - self._clock.now())

    def forget(self, key: Hashable) -> None:
        """Drop *key*."""
        self._entries.pop(key, None)

    def collect(self) -> None:
        """Drop entries that have been quiet for twice the maximum."""
        limit = self._clock.now() - 2 * self._max
        for key in [key for key, (_, updated) in self._entries.items() if updated < limit]:
            del self._entries[key]
