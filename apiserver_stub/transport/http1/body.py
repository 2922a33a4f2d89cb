"""Body of a request, received before or while its handler reads it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from apiserver_stub.transport.http import MalformedBody

_HIGH_WATER_BYTES, _LOW_WATER_BYTES = 128 << 10, 16 << 10
"""Amounts of unread data at which receiving is paused and resumed."""


class Flow(Protocol):
    """Receiving side of a connection."""

    def pause_body(self) -> None:
        """Stop receiving."""

    def resume_body(self) -> None:
        """Receive again."""


class RequestBody:
    """Data that was received and not read yet."""

    __slots__ = ("_discards", "_error", "_flow", "_pieces", "_size", "_waiter", "complete")

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: str | None = None
        self._discards = False
        self.complete = False
        """All data was received."""

    @property
    def unread(self) -> bool:
        """True if a part of the body was not read."""
        return bool(self._pieces) or not self.complete

    def feed(self, data: bytes) -> None:
        """Add received data."""
        if self._discards:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _HIGH_WATER_BYTES:
            self._flow.pause_body()
        self._notify()

    def finish(self) -> None:
        """Record that all data was received."""
        self.complete = True
        self._notify()

    def fail(self, problem: str) -> None:
        """Record that the rest of the body cannot be received."""
        self._error = problem
        self._notify()

    def discard(self) -> None:
        """Drop the data that is unread or still to be received."""
        self._discards = True
        self._pieces.clear()
        self._size = 0
        self._flow.resume_body()

    async def wait_complete(self) -> None:
        """Return when all data was received, or the rest cannot be received."""
        while not self.complete and self._error is None:
            await self._wait()

    def take_all(self) -> bytes | None:
        """Return the body if it was received completely, else ``None``."""
        if not self.complete:
            return None
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._flow.resume_body()
        return data

    async def take(self) -> bytes:
        """Return data when it is available, none at the end of the body.

        :raises MalformedBody: the rest cannot be received.
        """
        while not self._pieces:
            if self._error is not None:
                raise MalformedBody(self._error)
            if self.complete:
                return b""
            await self._wait()
        data = self._pieces.popleft()
        self._size -= len(data)
        if self._size <= _LOW_WATER_BYTES:
            self._flow.resume_body()
        return data

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
