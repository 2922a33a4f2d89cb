"""WebSocket connections that also receive messages."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from apiserver_stub.transport.websocket import PROTOCOL_ERROR, TOO_BIG, WebSocket

MAX_MESSAGE_BYTES = 4 << 20
QUEUED_BYTES = 256 << 10
"""Size of unread messages from which on the connection is not read, so that the client waits."""
_CONTINUATION, _BINARY, _FINAL = 0, 2, 0x80


class MessageSocket(WebSocket):
    """A connection that sends and receives messages until either side closes it."""

    def __init__(self) -> None:
        super().__init__()
        self._messages: deque[bytes] = deque()
        self._queued = 0
        self._fragments: bytearray | None = None
        """Start of a message whose last frame was not received yet."""
        self._is_binary = False
        self._changed = asyncio.Event()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield the binary messages until the client closes or disconnects; text messages are ignored."""
        while True:
            while self._messages:
                message = self._messages.popleft()
                was_full, self._queued = self._queued >= QUEUED_BYTES, self._queued - len(message)
                if was_full and self._queued < QUEUED_BYTES and self._transport is not None:
                    self._transport.resume_reading()
                yield message
            if self._closed.is_set():
                return
            self._changed.clear()
            await self._changed.wait()

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._changed.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._changed.set()

    def _receive_message(self, start: int, size: int) -> bool:
        received = self._received
        opcode, is_last = received[0] & 0x0F, received[0] & _FINAL
        if (opcode == _CONTINUATION) == (self._fragments is None):
            self._fail(PROTOCOL_ERROR)
            return False
        if len(self._fragments or b"") + size > MAX_MESSAGE_BYTES:
            self._fail(TOO_BIG)
            return False
        if len(received) < start + size:
            return False
        payload = self._take_payload(start, size)
        if self._fragments is None:
            self._fragments, self._is_binary = bytearray(), opcode == _BINARY
        self._fragments += payload
        if is_last:
            message, self._fragments = bytes(self._fragments), None
            if self._is_binary:
                self._add(message)
        return True

    def _add(self, message: bytes) -> None:
        self._messages.append(message)
        was_full, self._queued = self._queued >= QUEUED_BYTES, self._queued + len(message)
        if not was_full and self._queued >= QUEUED_BYTES and self._transport is not None:
            self._transport.pause_reading()
