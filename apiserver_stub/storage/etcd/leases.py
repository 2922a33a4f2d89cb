"""Leases of expiring records: many records share a lease, which keeps the number of leases small."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nodeagent.base.aio import Clock
from nodeagent.base.structs import MutableStruct

MOST_RECORDS = 1000
"""Limit of records per lease, which bounds the burst of deletions when it expires."""
_SHARE = 0.05


class _Lease(MutableStruct):
    id: int
    ends: float
    records: int = 0


class Leases:
    """Allocator of shared leases.

    :param grant: requests a lease of the given seconds.
    :param reuse_seconds: maximum time to reuse a lease (spec: opt.lease-reuse-duration-seconds); 0 disables reuse.
    """

    def __init__(self, grant: Callable[[int], Awaitable[int]], reuse_seconds: int, clock: Clock) -> None:
        self._grant, self._reuse, self._clock = grant, reuse_seconds, clock
        self._leases: dict[int, _Lease] = {}
        self._lock = asyncio.Lock()

    async def lease(self, ttl: int) -> int:
        """Return a lease that expires in *ttl* seconds or slightly later."""
        async with self._lock:
            now = self._clock.now()
            found = self._leases.get(ttl)
            if found is None or found.ends - now < ttl or found.records >= MOST_RECORDS:
                extra = max(0, min(int(ttl * _SHARE), self._reuse))
                found = _Lease(await self._grant(ttl + extra), now + ttl + extra if extra else now)
                self._leases[ttl] = found
            found.records += 1
            return found.id

    def drop(self, lease: int) -> None:
        """Stop reusing *lease*, which expired early."""
        self._leases = {ttl: found for ttl, found in self._leases.items() if found.id != lease}
