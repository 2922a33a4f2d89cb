"""WebSocket connections (RFC 6455); messages of the client are ignored, see :mod:`message_socket`.

Custom on top of :meth:`HttpRequest.upgrade`, since ``aiohttp`` serves WebSockets only to its own requests.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Sequence
from typing import cast

from apiserver_stub.transport.backpressure import Backpressure
from apiserver_stub.transport.http import HttpRequest

VERSION = "13"
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES = 16
_CLOSE_SECONDS = 1.0
"""Time limit for the client's close frame."""
_FINAL, _MASKED = 0x80, 0x80
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_SHORT, _MEDIUM = 126, 1 << 16
_MAX_CONTROL_BYTES = 125
_NORMAL, PROTOCOL_ERROR, TOO_BIG = ((1000 + number).to_bytes(2) for number in (0, 2, 9))


def is_websocket(http: HttpRequest) -> bool:
    """Return whether the client requests a WebSocket."""
    connection = {token.strip().lower() for token in http.headers.get("Connection", "").split(",")}
    return "upgrade" in connection and http.headers.get("Upgrade", "").lower() == "websocket"


def can_accept(http: HttpRequest) -> bool:
    """Return whether the client's handshake is valid."""
    headers = http.headers
    try:
        key = base64.b64decode(headers.get("Sec-WebSocket-Key", ""), validate=True)
    except ValueError:
        return False
    return is_websocket(http) and len(key) == _KEY_BYTES and headers.get("Sec-WebSocket-Version") == VERSION


def accept(http: HttpRequest, protocol: str, headers: Sequence[tuple[str, str]] = ()) -> WebSocket:
    """Respond with 101 and return the connection; :func:`can_accept` must be true.

    :param protocol: the chosen sub-protocol, empty for none.
    :param headers: further headers of the response.
    :raises ConnectionResetError: the client has disconnected.
    """
    socket = WebSocket()
    upgrade(http, socket, protocol, headers)
    return socket


def upgrade(http: HttpRequest, socket: WebSocket, protocol: str, headers: Sequence[tuple[str, str]] = ()) -> None:
    """Respond with 101 and attach *socket* to the connection, as :func:`accept` does."""
    key = http.headers.get("Sec-WebSocket-Key", "").encode()
    digest = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode()
    fields = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", digest)]
    if protocol:
        fields.append(("Sec-WebSocket-Protocol", protocol))
    http.upgrade(socket, [*fields, *headers])


class WebSocket(asyncio.Protocol):
    """A connection that sends messages until either side closes it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._writes = Backpressure()
        self._received = bytearray()
        self._ignored = 0
        """Bytes of the current frame that are still to be ignored."""
        self._closed = asyncio.Event()
        self._close_sent = False

    async def send(self, data: bytes, *, text: bool) -> None:
        """Send one message, and wait while the client reads too slowly.

        :param text: *data* is UTF-8 text.
        :raises ConnectionResetError: the client has disconnected or closed, or does not read.
        """
        if self._close_sent:
            raise ConnectionResetError("the client has closed the WebSocket")
        self._write(_TEXT if text else _BINARY, data)
        try:
            await self._writes.wait(may_stall=False)
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()
            raise ConnectionResetError("the client does not read") from None

    async def wait_closed(self) -> None:
        """Return when the client has closed the WebSocket or disconnected."""
        await self._closed.wait()

    async def close(self) -> None:
        """Send a close frame, wait briefly for that of the client, and disconnect."""
        if self._transport is None:
            return
        self._send_close(_NORMAL)
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._closed.wait()
        except TimeoutError:
            pass
        if self._transport is not None:
            self._transport.close()

    def _send_close(self, status: bytes) -> None:
        if not self._close_sent and self._transport is not None and not self._transport.is_closing():
            self._write(_CLOSE, status)
        self._close_sent = True

    def _write(self, opcode: int, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the client has disconnected")
        size = len(data)
        if size < _SHORT:
            head = bytes([_FINAL | opcode, size])
        elif size < _MEDIUM:
            head = bytes([_FINAL | opcode, _SHORT]) + size.to_bytes(2, "big")
        else:
            head = bytes([_FINAL | opcode, _SHORT + 1]) + size.to_bytes(8, "big")
        self._transport.write(head + data)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport = None
        self._writes.lose()
        self._closed.set()

    def pause_writing(self) -> None:
        self._writes.pause()

    def resume_writing(self) -> None:
        self._writes.resume()

    def data_received(self, data: bytes) -> None:
        if self._closed.is_set():
            return
        self._received += data
        while self._received and not self._closed.is_set():
            if self._ignored:
                size = min(self._ignored, len(self._received))
                del self._received[:size]
                self._ignored -= size
            elif not self._receive_frame():
                return

    def _receive_frame(self) -> bool:
        """Handle the frame at the start of the received data; return whether it was complete."""
        received = self._received
        if len(received) < 2:
            return False
        opcode, size, masked = received[0] & 0x0F, received[1] & 0x7F, received[1] & _MASKED
        extended = {_SHORT: 2, _SHORT + 1: 8}.get(size, 0)
        start = 2 + extended + 4
        if not masked or (opcode >= _CLOSE and size > _MAX_CONTROL_BYTES):
            self._fail(PROTOCOL_ERROR)
            return False
        if len(received) < start:
            return False
        if extended:
            size = int.from_bytes(received[2 : 2 + extended], "big")
        if opcode < _CLOSE:
            return self._receive_message(start, size)
        if len(received) < start + size:
            return False
        payload = self._take_payload(start, size)
        if opcode == _CLOSE:
            self._send_close(payload[:2] or _NORMAL)
            self._closed.set()
        elif opcode == _PING and self._transport is not None and not self._transport.is_closing():
            self._write(_PONG, payload)
        return True

    def _receive_message(self, start: int, size: int) -> bool:
        """Handle the frame of a message, whose *size* bytes are at *start*; return whether it was complete."""
        del self._received[:start]
        self._ignored = size
        return True

    def _take_payload(self, start: int, size: int) -> bytes:
        """Remove the frame at the start of the received data and return its payload, which is at *start*."""
        mask, masked_payload = self._received[start - 4 : start], self._received[start : start + size]
        del self._received[: start + size]
        key = (mask * (size // 4 + 1))[:size]
        return (int.from_bytes(masked_payload) ^ int.from_bytes(key)).to_bytes(size)

    def _fail(self, status: bytes) -> None:
        """Close the WebSocket because of an invalid frame."""
        self._send_close(status)
        self._closed.set()
