"""Streaming sessions: channels for input, output, errors, status and terminal sizes, independent of the protocol."""

from __future__ import annotations

import base64
import binascii
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
        await self._finish(status)

    async def fail(self, text: str) -> None:
        """Report why there is no stream."""
        status = {"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500, "message": text}
        with contextlib.suppress(ConnectionError):
            await self._finish(status)

    async def _finish(self, status: dict[str, Any]) -> None:
        await self.send(ERROR, msgspec.json.encode(status))


class WebSocketSession(Session):
    """The channels of a WebSocket: each message starts with the number of its channel.

    :param protocol: the subprotocol. Without a version (``channel.k8s.io`` or none), only failures are reported, as
        plain text; with ``base64``, messages are text: a digit and encoded data.
    """

    def __init__(self, socket: web.WebSocketResponse, protocol: str) -> None:
        self._socket = socket
        self._encoded = "base64." in protocol
        self._versioned = protocol.startswith("v")

    async def send(self, channel: int, data: bytes) -> None:
        if self._encoded:
            await self._socket.send_str(f"{channel}{base64.b64encode(data).decode()}")
        else:
            await self._socket.send_bytes(bytes((channel,)) + data)

    async def read(self, feed: Feed) -> None:
        async for message in self._socket:
            if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT) or not message.data:
                continue
            data = message.data.encode() if message.type is WSMsgType.TEXT else message.data
            if not self._encoded:
                await feed(data[0], data[1:])
                continue
            with contextlib.suppress(binascii.Error):
                await feed(data[0] - ord("0"), base64.b64decode(data[1:]))

    async def _finish(self, status: dict[str, Any]) -> None:
        if self._versioned:
            await super()._finish(status)
        elif "message" in status:
            await self.send(ERROR, str(status["message"]).encode())
