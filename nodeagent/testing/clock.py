"""A clock that stands still until a test steps it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

_ROUNDS = 25
"""Turns of the event loop after which tasks that hand on to each other are taken to have come to rest."""


class FakeClock:
    """Keeps the contract of ``Clock``; time passes only in :meth:`advance`.

    Work that was given to ``asyncio.to_thread`` since the clock was made (or first used) in a running loop is waited
    for, so that a test needs no sleep of its own.
    """

    def __init__(self, now: float = 1000.0, wall: datetime = datetime(2024, 1, 2, 15, 4, 5, tzinfo=UTC)) -> None:
        self._now, self._start, self._wall = now, now, wall
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._watch_threads()

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        return self._wall + timedelta(seconds=self._now - self._start)

    async def sleep(self, seconds: float) -> None:
        await self.sleep_until(self._now + seconds)

    async def sleep_until(self, due: float) -> None:
        self._watch_threads()
        if due <= self._now:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (due, next(self._order), future))
        await future

    @property
    def sleepers(self) -> int:
        """How many tasks wait for time to pass."""
        return sum(not future.done() for _, _, future in self._sleepers)

    @property
    def next_due(self) -> float | None:
        """In how many seconds the next sleeper wakes; ``None`` when nobody sleeps."""
        due = min((due for due, _, future in self._sleepers if not future.done()), default=None)
        return None if due is None else max(0.0, due - self._now)

    async def advance(self, seconds: float = 0) -> None:
        """Let *seconds* pass: wake sleepers one due time after the other and let everything run to rest after each."""
        await self.settle()
        end = self._now + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            self._now = max(self._now, self._sleepers[0][0])
            while self._sleepers and self._sleepers[0][0] <= self._now:
                _, _, future = heapq.heappop(self._sleepers)
                if not future.done():
                    future.set_result(None)
            await self.settle()
        self._now = end
        await self.settle()

    def jump(self, seconds: float) -> None:
        """Let *seconds* pass without waking anyone, as outside an event loop."""
        self._now += seconds

    def set_wall(self, wall: datetime) -> None:
        """Set the time of day, as an operator or a time server would; lengths of time do not notice."""
        self._wall, self._start = wall, self._now

    async def settle(self) -> None:
        """Let tasks and threads run until nothing more happens without time passing."""
        executor = self._watch_threads()
        while True:
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)
            if executor is None or executor.at_rest == executor.begun:
                return
            if not executor.busy:
                executor.at_rest = executor.begun  # its results may still be on their way to the loop
            await asyncio.sleep(0.001)

    def _watch_threads(self) -> _WatchedExecutor | None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None
        executor: _WatchedExecutor | None = getattr(self, "_executor", None)
        if executor is None or executor.loop is not loop:
            executor = self._executor = _WatchedExecutor(loop)
            loop.set_default_executor(executor)
        return executor


class _WatchedExecutor(ThreadPoolExecutor):
    """Knows whether work is under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(max_workers=8, thread_name_prefix="asyncio")
        self.loop = loop
        self.begun = self.at_rest = 0
        self._under_way: set[Future[Any]] = set()

    @property
    def busy(self) -> bool:
        return any(not future.done() for future in set(self._under_way))

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.begun += 1
        future = super().submit(work, *args, **kwargs)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future


async def eventually(condition: Callable[[], object], *, within_seconds: float = 5.0) -> None:
    """Wait in real time, in small steps, until *condition* holds: for what the kernel or another process does.

    :raises AssertionError: it did not come true in time.
    """
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true within {within_seconds:g} s: {condition}")
        await asyncio.sleep(0.005)
