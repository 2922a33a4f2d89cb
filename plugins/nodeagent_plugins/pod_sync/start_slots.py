"""Limit of the sandboxes and containers that the runtime starts at the same time."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

SLOT_SECONDS = 1.0
"""A start that takes longer mostly waits, such as for the network or for a virtual machine."""


def default_slots() -> int:
    """Return the default limit: two per CPU, at least four.

    More of them only compete for the CPUs: fifty pods on two CPUs then run later, the first ones most of all.
    """
    return max(4, 2 * (os.cpu_count() or 1))


class StartSlots:
    """Limits starts that use the CPU. Containers go first, so that pods with a sandbox are completed.

    A start gives up its slot after :data:`SLOT_SECONDS`, so that slow or hanging ones do not delay those of other pods.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._containers: deque[asyncio.Future[None]] = deque()
        self._sandboxes: deque[asyncio.Future[None]] = deque()

    def sandbox(self) -> AbstractAsyncContextManager[None]:
        """Wait for a slot, and hold it during the block, at most for :data:`SLOT_SECONDS`."""
        return self._slot(self._sandboxes)

    def container(self) -> AbstractAsyncContextManager[None]:
        """Do the same for a container, before all sandboxes that wait."""
        return self._slot(self._containers)

    @asynccontextmanager
    async def _slot(self, queue: deque[asyncio.Future[None]]) -> AsyncIterator[None]:
        await self._acquire(queue)
        held = True

        def give_up() -> None:
            nonlocal held
            if held:
                held = False
                self._release()

        timer = asyncio.get_running_loop().call_later(SLOT_SECONDS, give_up)
        try:
            yield
        finally:
            timer.cancel()
            give_up()

    async def _acquire(self, queue: deque[asyncio.Future[None]]) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # Its turn has come, too.
                self._release()
            raise

    def _release(self) -> None:
        for queue in (self._containers, self._sandboxes):
            while queue:
                turn = queue.popleft()
                if not turn.cancelled():
                    turn.set_result(None)
                    return
        self._free += 1
