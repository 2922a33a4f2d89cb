"""Commands and attachments over WebSockets, translated to SPDY streams of the runtime.

Runtimes do not implement the WebSocket subprotocol in which a client can close its input.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from aiohttp import WSMsgType, web

from nodeagent.base.aio import Clock
from nodeagent.base.stream_translation import PROTOCOL, STREAM_CLOSE, Streams, TranslatedSession, run_until_first
from nodeagent.contracts.server import SENT_BYTES
from nodeagent_plugins.routes_exec.spdy_client import open_spdy
from nodeagent_plugins.routes_exec.websockets import IdleLimit, accept


async def translate(
    request: web.Request, url: str, streams: Streams, clock: Clock, idle_seconds: float
) -> web.StreamResponse:
    """Accept the WebSocket and copy its channels to and from the streams at *url* until one side closes."""
    socket, idle = await accept(request, (STREAM_CLOSE,)), IdleLimit(clock, idle_seconds)
    session = TranslatedSession(_Client(socket, idle), streams, "the runtime")
    try:
        with contextlib.suppress(ConnectionError):  # The client has disconnected.
            await run_until_first(session.run(lambda: open_spdy(url, (PROTOCOL,))), idle.wait())
    finally:
        SENT_BYTES.get().count = session.sent_bytes
    await socket.close()
    return socket


class _Client:
    """The client's WebSocket, whose messages reset the idle limit."""

    def __init__(self, socket: web.WebSocketResponse, idle: IdleLimit) -> None:
        self._socket, self._idle = socket, idle

    async def send(self, message: bytes) -> None:
        await self._socket.send_bytes(message)
        self._idle.touch()

    async def messages(self) -> AsyncIterator[bytes]:
        async for message in self._socket:
            if message.type is WSMsgType.BINARY:
                self._idle.touch()
                yield message.data
