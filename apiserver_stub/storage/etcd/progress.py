"""Latest visible revision and the requests that wait for later ones."""

from __future__ import annotations

import asyncio
import heapq


class Progress:
    """Latest visible revision."""

    def __init__(self) -> None:
        self.revision = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._number = 0

    def reached(self, revision: int) -> None:
        """Make *revision* visible; an older one is ignored."""
        self.revision = max(self.revision, revision)
        while self._waiting and self._waiting[0][0] <= self.revision:
            _, _, waiter = heapq.heappop(self._waiting)
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, revision: int, seconds: float) -> bool:
        """Return whether *revision* becomes visible within *seconds*."""
        if self.revision >= revision:
            return True
        waiter = asyncio.get_running_loop().create_future()
        self._number += 1
        heapq.heappush(self._waiting, (revision, self._number, waiter))
        done, _ = await asyncio.wait((waiter,), timeout=seconds)
        if not done:
            waiter.cancel()
        return bool(done)
