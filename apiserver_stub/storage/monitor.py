"""Periodic measurements of the store: health, object counts, database sizes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from apiserver_stub.storage.base import Probe, Store, StoreRejected, StoreUnavailable

READINESS = "etcd-readiness"
"""Name of the check with a separate timeout."""
_DEFAULT_SECONDS = 2.0


class Check:
    """Health check that runs at most once per half of its timeout; the result is cached in between.

    :param seconds: timeout; 0 means two seconds.
    """

    def __init__(self, probe: Probe, seconds: float) -> None:
        self._probe, self._seconds = probe, seconds or _DEFAULT_SECONDS
        self._checked_at, self._problem = float("-inf"), ""
        self._lock = asyncio.Lock()

    async def problem(self) -> str:
        """Return the problem, or an empty string."""
        async with self._lock:
            if time.monotonic() - self._checked_at >= self._seconds / 2:
                self._problem = await self._probe(self._seconds)
                self._checked_at = time.monotonic()
            return self._problem


class StoreMonitor:
    """Latest measured object counts and database sizes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.objects: dict[str, int] = {}
        """Number of records by collection; -1 if the backend did not respond."""
        self.sizes: dict[str, int] = {}
        """Database size in bytes by server address."""

    async def count(self, collections: Iterable[str]) -> None:
        """Count the records of *collections*; counts of others are dropped."""
        names = set(collections)
        self.objects = {name: count for name, count in self.objects.items() if name in names}
        for name in names:
            try:
                self.objects[name] = await self._store.count(name)
            except (StoreUnavailable, StoreRejected):
                self.objects[name] = -1

    async def measure(self) -> None:
        """Measure the database sizes."""
        try:
            self.sizes = dict(await self._store.sizes())
        except (StoreUnavailable, StoreRejected):
            self.sizes = {}


async def repeat(measure: Callable[[], Awaitable[None]], every_seconds: float) -> None:
    """Call *measure* immediately, then every *every_seconds* until cancelled."""
    while True:
        await measure()
        await asyncio.sleep(every_seconds)
