"""What is asked of the store from time to time: its health, how many objects it has, how large it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from apiserver_stub.store.base import Probe, Store, StoreRefused, StoreUnavailable

READINESS = "etcd-readiness"
"""Name of the check that has a timeout of its own."""
_DEFAULT_SECONDS = 2.0


class Check:
    """A probe that is asked at most every half of its timeout; in between its last answer counts.

    :param seconds: how long an answer may take; 0 is two seconds.
    """

    def __init__(self, probe: Probe, seconds: float) -> None:
        self._probe, self._seconds = probe, seconds or _DEFAULT_SECONDS
        self._asked, self._problem = float("-inf"), ""
        self._lock = asyncio.Lock()

    async def problem(self) -> str:
        """Return what is wrong, empty when nothing is."""
        async with self._lock:
            if time.monotonic() - self._asked >= self._seconds / 2:
                self._problem = await self._probe(self._seconds)
                self._asked = time.monotonic()
            return self._problem


class Polls:
    """Numbers of the store as they were when last asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.objects: dict[str, int] = {}
        """Collection → its records; -1 when the store did not answer."""
        self.sizes: dict[str, int] = {}
        """Address of a server → bytes of its database."""

    async def count(self, collections: Iterable[str]) -> None:
        for name in collections:
            try:
                self.objects[name] = await self._store.count(name)
            except (StoreUnavailable, StoreRefused):
                self.objects[name] = -1

    async def measure(self) -> None:
        try:
            self.sizes = dict(await self._store.sizes())
        except (StoreUnavailable, StoreRefused):
            self.sizes = {}


async def repeat(poll: Callable[[], Awaitable[None]], every_seconds: float) -> None:
    """Run *poll* now and again every *every_seconds*."""
    while True:
        await poll()
        await asyncio.sleep(every_seconds)
