"""Interruptible waits."""

from __future__ import annotations

import asyncio

from nodeagent.base.aio import Clock


async def wait_for(event: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Wait until *event* is set, at most *seconds*."""
    if event.is_set():
        return
    tasks = {asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(event.wait())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Waker:
    """Timer of a loop that other tasks can trigger early."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._triggered = asyncio.Event()

    def wake(self) -> None:
        """Trigger the loop: end the current wait, or the next one immediately."""
        self._triggered.set()

    async def wait(self, seconds: float) -> None:
        """Wait *seconds*, or less if triggered."""
        await wait_for(self._triggered, self._clock, seconds)
        self._triggered.clear()
