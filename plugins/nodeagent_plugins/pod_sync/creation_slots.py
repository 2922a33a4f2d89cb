"""Limit of the sandboxes that the runtime creates at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

SLOT_SECONDS = 1.0
"""A creation that takes longer mostly waits, such as for the network or for the start of a virtual machine."""


def default_slots() -> int:
    """Return the default limit: two per CPU, at least four.

    More of them only compete for the CPUs: fifty pods on two CPUs then start later, the first one most of all.
    """
    return max(4, 2 * (os.cpu_count() or 1))


class CreationSlots:
    """Limits creations that use the CPU.

    A creation gives up its slot after :data:`SLOT_SECONDS`, so that slow or hanging ones do not delay those of other
    pods.
    """

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it during the block, at most for :data:`SLOT_SECONDS`."""
        await self._free.acquire()
        held = True

        def give_up() -> None:
            nonlocal held
            if held:
                held = False
                self._free.release()

        timer = asyncio.get_running_loop().call_later(SLOT_SECONDS, give_up)
        try:
            yield
        finally:
            timer.cancel()
            give_up()
