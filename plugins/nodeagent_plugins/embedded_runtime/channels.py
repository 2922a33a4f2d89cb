"""Streaming sessions: channels for input, output, errors, status and terminal sizes, independent of the protocol."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255
"""A message on this channel contains the number of a channel that the client has closed."""

Feed = Callable[[int, bytes], Awaitable[None]]


class Session(ABC):
    """The channels of one client."""

    @abstractmethod
    async def send(self, channel: int, data: bytes) -> None:
        """Send *data* to the client.

        :raises ConnectionError: the client has disconnected.
        """

    @abstractmethod
    async def read(self, feed: Feed) -> None:
        """Pass each message to *feed*, channel and data, until the client disconnects."""

    async def succeed(self, exit_code: int = 0) -> None:
        """Report the exit code of the command."""
        status: dict[str, Any] = {"metadata": {}, "status": "Success"}
        if exit_code:
            status = {
                "metadata": {},
                "status": "Failure",
                "message": f"command terminated with exit code {exit_code}",
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
            }
        await self.send(ERROR, msgspec.json.encode(status))

    async def fail(self, text: str) -> None:
        """Report why there is no stream."""
        status = {"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500, "message": text}
        with contextlib.suppress(ConnectionError):
            await self.send(ERROR, msgspec.json.encode(status))


class WebSocketSession(Session):
    """The channels of a WebSocket: each message starts with the number of its channel."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def send(self, channel: int, data: bytes) -> None:
        await self._socket.send_bytes(bytes((channel,)) + data)

    async def read(self, feed: Feed) -> None:
        async for message in self._socket:
            if message.type is WSMsgType.BINARY and message.data:
                await feed(message.data[0], message.data[1:])
