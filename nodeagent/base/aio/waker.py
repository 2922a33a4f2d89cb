"""Waiting that somebody may cut short."""

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
    """Lets one loop wait for time to pass or for news, whichever is first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._news = asyncio.Event()

    def wake(self) -> None:
        """End the wait under way, or the next one."""
        self._news.set()

    async def wait(self, seconds: float) -> None:
        """Wait *seconds* or until woken."""
        await wait_for(self._news, self._clock, seconds)
        self._news.clear()
