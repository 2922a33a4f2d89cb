"""How far readers have come, and who waits for them to come further."""

from __future__ import annotations

import asyncio
import heapq


class Progress:
    """The newest revision that readers may see."""

    def __init__(self) -> None:
        self.revision = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._number = 0

    def reached(self, revision: int) -> None:
        """Let readers see *revision*; what is older than the newest changes nothing."""
        self.revision = max(self.revision, revision)
        while self._waiting and self._waiting[0][0] <= self.revision:
            _, _, waiter = heapq.heappop(self._waiting)
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, revision: int, seconds: float) -> bool:
        """Return whether readers may see *revision* within *seconds*."""
        if self.revision >= revision:
            return True
        waiter = asyncio.get_running_loop().create_future()
        self._number += 1
        heapq.heappush(self._waiting, (revision, self._number, waiter))
        done, _ = await asyncio.wait((waiter,), timeout=seconds)
        if not done:
            waiter.cancel()
        return bool(done)
