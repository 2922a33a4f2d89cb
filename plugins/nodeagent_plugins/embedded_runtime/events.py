"""Publish container and sandbox events to subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from nodeagent.base.criproto import api_pb2 as cri

MAX_WAITING = 1000


class Events:
    """Passes each event to all subscribers; the stream of a slow subscriber is closed."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[cri.ContainerEventResponse | None]] = set()

    def __len__(self) -> int:
        return len(self._listeners)

    def send(self, event: cri.ContainerEventResponse) -> None:
        for listener in list(self._listeners):
            if listener.qsize() < MAX_WAITING:
                listener.put_nowait(event)
            else:
                self._listeners.discard(listener)
                listener.put_nowait(None)

    async def listen(self) -> AsyncGenerator[cri.ContainerEventResponse, None]:
        """Yield new events; ends if the subscriber is too slow."""
        mine: asyncio.Queue[cri.ContainerEventResponse | None] = asyncio.Queue()
        self._listeners.add(mine)
        try:
            while (event := await mine.get()) is not None:
                yield event
        finally:
            self._listeners.discard(mine)
