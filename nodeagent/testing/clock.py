"""Fake clock, advanced by tests."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

_ITERATIONS = 25
"""Iterations of the event loop after which tasks that wait for each other are considered idle."""
_IDLE_ITERATIONS = 3
"""Iterations without any work, each of which also polls file descriptors, after which all tasks are idle."""


class FakeClock:
    """A :class:`~nodeagent.base.aio.Clock` whose time passes only in :meth:`advance` and :meth:`jump`.

    :meth:`advance` also waits for work in ``asyncio.to_thread`` that was started after the clock was created, or first
    used, in the running event loop, so that tests need no real sleep.
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
        """The number of sleeping tasks."""
        return sum(not future.done() for _, _, future in self._sleepers)

    @property
    def next_due(self) -> float | None:
        """Seconds until the next sleeping task is due; ``None`` if no task sleeps."""
        due = min((due for due, _, future in self._sleepers if not future.done()), default=None)
        return None if due is None else max(0.0, due - self._now)

    async def advance(self, seconds: float = 0) -> None:
        """Advance the time by *seconds*, one due time after the other, and :meth:`settle` after each."""
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
        """Advance the time by *seconds* without resuming sleeping tasks, for use outside of an event loop."""
        self._now += seconds

    def set_wall(self, wall: datetime) -> None:
        """Set the wall clock, as an administrator or NTP would; the monotonic time is not affected."""
        self._wall, self._start = wall, self._now

    async def settle(self) -> None:
        """Run tasks and threads until all of them wait for the time to advance."""
        executor = self._watch_threads()
        while True:
            await _run_ready_tasks()
            if executor is None or executor.settled == executor.submitted:
                return
            if not executor.busy:
                executor.settled = executor.submitted  # The event loop may not have received its results yet.
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


async def _run_ready_tasks() -> None:
    """Run the event loop until it has no work, at most for ``_ITERATIONS``."""
    # Other event loops than those of asyncio have no such attribute.
    ready: Sized | None = getattr(asyncio.get_running_loop(), "_ready", None)
    idle = 0
    for _ in range(_ITERATIONS):
        await asyncio.sleep(0)
        idle = 0 if ready is None or len(ready) else idle + 1
        if idle == _IDLE_ITERATIONS:
            return


class _WatchedExecutor(ThreadPoolExecutor):
    """Executor that counts submitted work and reports whether any is in progress."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(max_workers=8, thread_name_prefix="asyncio")
        self.loop = loop
        self.submitted = self.settled = 0
        self._in_progress: set[Future[Any]] = set()

    @property
    def busy(self) -> bool:
        return bool(self._in_progress)

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        future = super().submit(work, *args, **kwargs)
        self._in_progress.add(future)
        # After the callback of the event loop, so that work counts as in progress until the loop receives its result.
        self.loop.call_soon_threadsafe(future.add_done_callback, self._in_progress.discard)
        return future


async def eventually(condition: Callable[[], object], *, within_seconds: float = 30.0) -> None:
    """Poll *condition* in real time until it is true; for effects of the kernel or of another process.

    :raises AssertionError: it is not true in time.
    """
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out after {within_seconds:g} s waiting for {condition}")
        await asyncio.sleep(0.005)
