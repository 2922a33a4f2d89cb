"""Work queue of a controller: each key is queued once, and failed keys are retried with exponential backoff.

The semantics are those of client-go's work queues: a key that is added while it is processed is processed once more
afterwards, and never by two workers at the same time.

``asyncio.Queue`` is not used, since it neither drops duplicates nor delays keys.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.storage import StoreRejected, StoreUnavailable
from nodeagent.base.aio import Backoff, Clock, SystemClock
from nodeagent.base.aio.waker import Waker
from nodeagent.base.metrics import Buckets, exponential

_log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)

FIRST_PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 60.0
_IDLE_SECONDS = 3600.0
_QUIET_PAUSES = 2
"""The pauses of a key are reset when it was not slowed down for this multiple of the maximum pause."""
_STALE_TIMERS = 64
_BOUNDS = exponential(1e-8, 10, 10)
"""Bounds of upstream's histograms, in seconds."""


class UnprocessableObject(Exception):
    """An object cannot be processed in the current state of others; it is logged without a traceback."""


_EXPECTED = (ApiError, StoreUnavailable, StoreRejected, UnprocessableObject)


class WorkQueueCounts:
    """Counts and durations of the keys of a queue.

    :ivar adds: keys that became ready.
    :ivar retries: keys that were queued for later.
    :ivar waits: seconds from the addition of a ready key until it is processed.
    :ivar runs: seconds in which a key is processed.
    """

    def __init__(self) -> None:
        self.adds, self.retries = 0, 0
        self.waits, self.runs = Buckets(_BOUNDS), Buckets(_BOUNDS)


class WorkQueue(Generic[Key]):
    """Queue of keys that are due now or later.

    The queue yields to the event loop after each batch of keys, so that work does not delay requests.

    :param interval_seconds: minimum time between two runs of the same key.
    """

    def __init__(
        self,
        name: str,
        clock: Clock | None = None,
        *,
        interval_seconds: float = 0.0,
        first_pause_seconds: float = FIRST_PAUSE_SECONDS,
        max_pause_seconds: float = MAX_PAUSE_SECONDS,
    ) -> None:
        self.name, self._clock = name, clock or SystemClock()
        self.counts = WorkQueueCounts()
        self._interval = interval_seconds
        self._first_pause, self._max_pause = first_pause_seconds, max_pause_seconds
        self._waker = Waker(self._clock)
        self._ready: deque[Key] = deque()
        self._dirty: dict[Key, float] = {}
        self._processing: dict[Key, float] = {}
        self._delayed: dict[Key, float] = {}
        self._timers: list[tuple[float, int, Key]] = []
        self._order = itertools.count()
        self._failures: dict[Key, Backoff] = {}
        self._slowed: dict[Key, tuple[Backoff, float]] = {}
        self._resting: dict[Key, float] = {}
        _QUEUES.add(self)

    def __len__(self) -> int:
        """Return how many keys are ready, delayed or in progress."""
        return len(self._dirty.keys() | self._processing.keys() | self._delayed.keys())

    @property
    def depth(self) -> int:
        """Number of keys that are ready."""
        return len(self._dirty)

    def running_seconds(self) -> list[float]:
        """Return for how long each key in progress has been processed."""
        now = self._clock.now()
        return [now - started for started in self._processing.values()]

    def add(self, key: Key) -> None:
        """Queue *key*, after its minimum interval or pause if it was processed recently."""
        rest = self._resting.get(key, 0.0) - self._clock.now()
        if rest > 0:
            self._delay(key, rest)
        else:
            self._make_ready(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Queue *key* after *seconds*; the earliest of several times takes effect."""
        if seconds <= 0:
            self.add(key)
        else:
            self._delay(key, seconds)

    def add_rate_limited(self, key: Key) -> None:
        """Queue *key* after a pause that grows with each call until :meth:`forget`."""
        pauses = self._failures.get(key)
        if pauses is None:
            pauses = self._failures[key] = self._backoff()
        self._delay(key, pauses.next())

    def forget(self, key: Key) -> None:
        """Reset the backoff of *key* after it was processed successfully."""
        self._failures.pop(key, None)

    def slow_down(self, key: Key) -> None:
        """Delay the next run of *key*, longer with each call until the key was not slowed down for some time.

        For controllers that overwrite values of other clients: if a client does the same, the rate of writes stays
        bounded.
        """
        now = self._clock.now()
        pauses, last = self._slowed.get(key, (self._backoff(), now))
        if now - last > _QUIET_PAUSES * self._max_pause:
            pauses = self._backoff()
        self._slowed[key] = (pauses, now)
        self._resting[key] = now + pauses.next()

    async def run(self, process: Callable[[Key], Awaitable[None]], *, at_once: int = 1) -> None:
        """Process keys until cancelled, at most *at_once* concurrently.

        A key whose processing raises is logged at its first failure and retried after a growing pause.
        """
        while True:
            keys = await self._take(at_once)
            if len(keys) == 1:
                await self._run_one(process, keys[0])
            else:
                await asyncio.gather(*(self._run_one(process, key) for key in keys))
            await asyncio.sleep(0)  # Processing may not have yielded to the event loop.

    async def _run_one(self, process: Callable[[Key], Awaitable[None]], key: Key) -> None:
        try:
            await process(key)
        except Exception as error:
            if key not in self._failures:
                unexpected = not isinstance(error, _EXPECTED)
                _log.log(
                    logging.ERROR if unexpected else logging.WARNING,
                    "Failed to process object, will retry",
                    extra={"controller": self.name, "key": _shown(key), "err": error},
                    exc_info=error if unexpected else None,
                )
            self.add_rate_limited(key)
        else:
            self.forget(key)
        finally:
            self._done(key)

    async def _take(self, limit: int) -> list[Key]:
        while True:
            self._release_due()
            if self._ready:
                keys = [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]
                now = self._clock.now()
                for key in keys:
                    self.counts.waits.observe(now - self._dirty.pop(key))
                    self._processing[key] = now
                return keys
            due = self._timers[0][0] - self._clock.now() if self._timers else _IDLE_SECONDS
            await self._waker.wait(min(due, _IDLE_SECONDS))

    def _done(self, key: Key) -> None:
        now = self._clock.now()
        self.counts.runs.observe(now - self._processing.pop(key))
        if self._interval:
            self._resting[key] = max(self._resting.get(key, 0.0), now + self._interval)
        if key not in self._dirty:
            return
        rest = self._resting.get(key, 0.0) - now
        if rest > 0:
            del self._dirty[key]
            self._delay(key, rest)
        else:
            self._ready.append(key)
            self._waker.wake()

    def _make_ready(self, key: Key) -> None:
        if key in self._dirty:
            return
        self._dirty[key] = self._clock.now()
        self.counts.adds += 1
        self._delayed.pop(key, None)
        if key not in self._processing:
            self._ready.append(key)
            self._waker.wake()

    def _delay(self, key: Key, seconds: float) -> None:
        due = self._clock.now() + seconds
        if key in self._dirty or self._delayed.get(key, due + 1) <= due:
            return
        self._delayed[key] = due
        self.counts.retries += 1
        heapq.heappush(self._timers, (due, next(self._order), key))
        if len(self._timers) > 2 * len(self._delayed) + _STALE_TIMERS:
            self._timers = [(due, next(self._order), key) for key, due in self._delayed.items()]
            heapq.heapify(self._timers)
        self._waker.wake()

    def _release_due(self) -> None:
        now = self._clock.now()
        while self._timers and self._timers[0][0] <= now:
            due, _, key = heapq.heappop(self._timers)
            if self._delayed.get(key) == due:
                del self._delayed[key]
                self._make_ready(key)
        if not self._ready:
            self._drop_rested(now)

    def _drop_rested(self, now: float) -> None:
        for key in [key for key, end in self._resting.items() if end <= now]:
            del self._resting[key]
        limit = now - _QUIET_PAUSES * self._max_pause
        for key in [key for key, (_, last) in self._slowed.items() if last < limit]:
            del self._slowed[key]

    def _backoff(self) -> Backoff:
        return Backoff(self._first_pause, self._max_pause)


_QUEUES: WeakSet[WorkQueue[Any]] = WeakSet()


def work_queues() -> list[WorkQueue[Any]]:
    """Return the queues of the controllers of this process."""
    return list(_QUEUES)


def _shown(key: Hashable) -> str:
    return "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
