"""A byte stream as WebSocket messages, with which browsers follow logs.

The sub-protocol selects the encoding: ``binary.k8s.io`` and none use binary messages, ``base64.binary.k8s.io`` text
messages. An empty message comes first; what the client sends is ignored, except that it closes.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from aiohttp import web

from apiserver_stub.transport import response_writer
from apiserver_stub.transport.sub_protocols import sub_protocols

if TYPE_CHECKING:
    from apiserver_stub.nodes.stream import Stream

_BASE64 = "base64.binary.k8s.io"
_PROTOCOLS = ("binary.k8s.io", _BASE64)
_VERSION = "13"
_MESSAGE_BYTES = 2048
_CLOSE_SECONDS = 1.0
"""Time limit for the client's close frame."""
_RECEIVED_BYTES = 64 << 10


def is_websocket(http: web.BaseRequest) -> bool:
    """Return whether the client requests a WebSocket."""
    connection = {token.strip().lower() for token in http.headers.get("Connection", "").split(",")}
    return "upgrade" in connection and http.headers.get("Upgrade", "").lower() == "websocket"


async def send_messages(stream: Stream, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
    """Send *pieces* as messages until they end or the client closes.

    The response is 400 for an invalid handshake and 403 for sub-protocols that are not supported.
    """
    http = stream.http
    offered = sub_protocols(http.headers)
    chosen = next((name for name in offered if name in _PROTOCOLS), "")
    if http.headers.get("Sec-WebSocket-Version") != _VERSION:
        return _rejection(400, "missing or bad WebSocket Version", {"Sec-WebSocket-Version": _VERSION})
    if not http.headers.get("Sec-WebSocket-Key"):
        return _rejection(400, "mismatch challenge/response")
    if offered and not chosen:
        return _rejection(403)
    socket = web.WebSocketResponse(
        protocols=(chosen,) if chosen else (), timeout=_CLOSE_SECONDS, compress=False, max_msg_size=_RECEIVED_BYTES
    )
    if not socket.can_prepare(http):
        return _rejection(400, "mismatch challenge/response")
    await socket.prepare(http)
    await stream.begin(101)
    sending = asyncio.ensure_future(_send(http, socket, pieces, text=chosen == _BASE64))
    receiving = asyncio.ensure_future(_ignore(socket))
    try:
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, receiving):
            task.cancel()
        results = await asyncio.gather(sending, receiving, return_exceptions=True)
    await socket.close()
    if isinstance(results[0], Exception):
        raise results[0]
    return socket


def _rejection(status: int, text: str = "", headers: dict[str, str] | None = None) -> web.Response:
    rejection = web.Response(status=status, text=text, headers=headers)
    rejection.force_close()
    return rejection


async def _send(
    http: web.BaseRequest, socket: web.WebSocketResponse, pieces: AsyncIterator[bytes], *, text: bool
) -> None:
    await _send_one(http, socket, b"", text=text)
    async for piece in pieces:
        for start in range(0, len(piece), _MESSAGE_BYTES):
            await _send_one(http, socket, piece[start : start + _MESSAGE_BYTES], text=text)


async def _send_one(http: web.BaseRequest, socket: web.WebSocketResponse, data: bytes, *, text: bool) -> None:
    async with response_writer.write_timeout(http):
        if text:
            await socket.send_str(base64.b64encode(data).decode())
        else:
            await socket.send_bytes(data)


async def _ignore(socket: web.WebSocketResponse) -> None:
    async for _ in socket:
        pass
