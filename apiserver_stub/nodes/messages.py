"""A byte stream as WebSocket messages, with which browsers follow logs.

The sub-protocol selects the encoding: ``binary.k8s.io`` and none use binary messages, ``base64.binary.k8s.io`` text
messages. The first message is empty; messages of the client are ignored, except for its close frame.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from apiserver_stub.transport import websocket
from apiserver_stub.transport.rendered import Rendered
from apiserver_stub.transport.sub_protocols import sub_protocols
from apiserver_stub.transport.websocket import WebSocket

if TYPE_CHECKING:
    from apiserver_stub.nodes.stream import Stream

_BASE64 = "base64.binary.k8s.io"
_PROTOCOLS = ("binary.k8s.io", _BASE64)
_MESSAGE_BYTES = 2048


async def send_messages(stream: Stream, pieces: AsyncIterator[bytes]) -> Rendered | None:
    """Send *pieces* as messages until they end or the client closes.

    The response is 400 for an invalid handshake and 403 for sub-protocols that are not supported.
    """
    http = stream.http
    offered = sub_protocols(http.headers)
    chosen = next((name for name in offered if name in _PROTOCOLS), "")
    if (rejection := invalid_handshake(stream)) is not None:
        return rejection
    if offered and not chosen:
        return _rejection(stream, 403)
    await stream.begin(101)
    socket = websocket.accept(http, chosen)
    sending = asyncio.ensure_future(_send(socket, pieces, text=chosen == _BASE64))
    closing = asyncio.ensure_future(socket.wait_closed())
    try:
        await asyncio.wait((sending, closing), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, closing):
            task.cancel()
        results = await asyncio.gather(sending, closing, return_exceptions=True)
    await socket.close()
    if isinstance(results[0], Exception):
        raise results[0]
    return None


def invalid_handshake(stream: Stream) -> Rendered | None:
    """Return the response to an invalid handshake, ``None`` for a valid one."""
    http = stream.http
    if http.headers.get("Sec-WebSocket-Version") != websocket.VERSION:
        return _rejection(stream, 400, "missing or bad WebSocket Version", {"Sec-WebSocket-Version": websocket.VERSION})
    return None if websocket.can_accept(http) else _rejection(stream, 400, "mismatch challenge/response")


def _rejection(stream: Stream, status: int, text: str = "", headers: dict[str, str] | None = None) -> Rendered:
    stream.http.close_after_response()
    return Rendered(status, "text/plain; charset=utf-8", [text.encode()], headers or {})


async def _send(socket: WebSocket, pieces: AsyncIterator[bytes], *, text: bool) -> None:
    await _send_one(socket, b"", text=text)
    async for piece in pieces:
        for start in range(0, len(piece), _MESSAGE_BYTES):
            await _send_one(socket, piece[start : start + _MESSAGE_BYTES], text=text)


async def _send_one(socket: WebSocket, data: bytes, *, text: bool) -> None:
    await socket.send(base64.b64encode(data) if text else data, text=text)
