"""Cache of the results of remote calls, such as reviews."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from cachetools import TLRUCache

from nodeagent.base.aio.clock import Clock
from nodeagent.base.aio.tasks import TaskOwner

MAX_RESULTS = 4096

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
E = TypeVar("E", bound=Exception)


class CallCache(Generic[K, V, E]):
    """Results by key, each cached for its own time; concurrent calls with the same key share one.

    Errors are not cached. When the cache is full, the least recently used result is evicted.

    :param error: the type of the errors that all callers of a failed call receive.
    :param name: of the tasks that make the calls.
    """

    def __init__(
        self, clock: Clock, tasks: TaskOwner, error: type[E], name: str, *, max_results: int = MAX_RESULTS
    ) -> None:
        self._tasks, self._error, self._name = tasks, error, name
        self._results: TLRUCache[K, tuple[V, float]] = TLRUCache(max_results, _expiry, timer=clock.now)
        self._calls: dict[K, asyncio.Task[V | E]] = {}

    async def get(
        self, key: K, call: Callable[[], Awaitable[tuple[V, float]]], *, wait_seconds: float | None = None
    ) -> V:
        """Return the result for *key*, from *call* if it is not cached.

        :param call: returns the result and for how many seconds to cache it; 0 or less does not cache it.
        :param wait_seconds: the longest to wait for a call, which continues for later callers.
        :raises E: the call failed.
        :raises TimeoutError: the call takes longer than *wait_seconds*.
        """
        try:
            return self._results[key][0]
        except KeyError:
            pass
        task = self._calls.get(key)
        if task is None:
            # Owned, since a client that disconnects must not cancel the call of the others.
            task = self._calls[key] = self._tasks.start(self._call(key, call), self._name)
        async with asyncio.timeout(wait_seconds):
            result = await asyncio.shield(task)
        if isinstance(result, self._error):
            raise result
        return result  # type: ignore[return-value]  # not an E

    async def _call(self, key: K, call: Callable[[], Awaitable[tuple[V, float]]]) -> V | E:
        try:
            result, seconds = await call()
        except self._error as error:
            return error
        finally:
            del self._calls[key]
        self._results[key] = result, seconds
        return result


def _expiry(_key: object, entry: tuple[object, float], now: float) -> float:
    return now + entry[1]
