"""Waiting for a client that reads slowly."""

from __future__ import annotations

import asyncio

STALLED_SECONDS = 60.0
"""Time after which a client that reads nothing is disconnected."""


class Backpressure:
    """Wait of a single writer until the client has read."""

    __slots__ = ("_waiter", "paused")

    def __init__(self) -> None:
        self.paused = False
        """The buffer is full, or the connection is lost."""
        self._waiter: asyncio.Future[None] | None = None

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """End the wait of the writer."""
        self.paused = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def lose(self) -> None:
        """Fail the wait of the writer, because the client has disconnected."""
        self.paused = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionResetError("Connection lost"))

    async def wait(self, *, may_stall: bool) -> None:
        """Wait until the writer is resumed.

        :param may_stall: wait for any time.
        :raises TimeoutError: :data:`STALLED_SECONDS` have passed.
        :raises ConnectionResetError: the client has disconnected.
        """
        while self.paused:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(None if may_stall else STALLED_SECONDS):
                    await self._waiter
            finally:
                self._waiter = None
