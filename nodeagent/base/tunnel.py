"""Tunnel between two connections: bytes are forwarded both ways unmodified, so it carries SPDY and WebSocket alike.

A slow receiver pauses the sender; at most one write buffer accumulates.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Protocol, cast

from nodeagent.base.aio import Clock
from nodeagent.base.aio.waker import wait_for

MAX_HEAD_BYTES = 64 * 1024
CLOSE_SECONDS = 5.0
BUFFER_BYTES = 256 * 1024
PIECE_BYTES = 56 * 1024
"""Size of a read: below the size for which the agent's malloc maps memory from the kernel each time."""
_END_OF_HEAD = b"\r\n\r\n"


class MalformedResponseHead(Exception):
    """The other side closed the connection, or sent something that is not the head of an HTTP response."""


class Tunnel:
    """Pair of connections.

    :param idle_seconds: both are closed after this time without a byte in either direction; 0 disables the limit.
    """

    def __init__(self, clock: Clock, idle_seconds: float = 0) -> None:
        self._clock, self._idle_seconds = clock, idle_seconds
        self._last_byte_at = clock.now()
        self.activity = asyncio.Event()
        self.piece = memoryview(bytearray(PIECE_BYTES))
        """Shared read buffer of both sides; empty between two calls of the event loop."""

    def byte_passed(self) -> None:
        if self._idle_seconds:
            self._last_byte_at = self._clock.now()

    async def pass_bytes(self, one: End, other: End) -> None:
        """Forward bytes until one side closes or both are idle for too long."""
        one.meet(other)
        other.meet(one)
        while not (one.closed or other.closed):
            self.activity.clear()
            if not self._idle_seconds:
                await self.activity.wait()
                continue
            left = self._last_byte_at + self._idle_seconds - self._clock.now()
            if left <= 0:
                return
            await wait_for(self.activity, self._clock, left)


class End(asyncio.BufferedProtocol):
    """One side of the tunnel; it buffers received data until it is connected to the other side."""

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel
        self._other: End | None = None
        self._transport: asyncio.Transport | None = None
        self.held = bytearray()
        self.passed = 0
        """Bytes received and forwarded to the other side."""
        self.closed = False

    def meet(self, other: End) -> None:
        """Forward the buffered and all further data to *other*."""
        self._other = other
        if self.held:
            held, self.held = bytes(self.held), bytearray()
            self.data_received(held)

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close after sending the remaining data, within a time limit."""
        transport = self._transport
        if transport is None or self.closed:
            return
        transport.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, transport.abort)

    async def read_head(self, seconds: float) -> tuple[int, bytes, bytes]:
        """Return the status, the head of the HTTP response and the data after it.

        :raises MalformedResponseHead: the head is malformed, too long or incomplete.
        :raises TimeoutError: it was not received within *seconds*.
        """
        async with asyncio.timeout(seconds):
            while _END_OF_HEAD not in self.held:
                if self.closed or len(self.held) > MAX_HEAD_BYTES:
                    raise MalformedResponseHead("sent no valid response")
                await self._more()
        head, _, rest = bytes(self.held).partition(_END_OF_HEAD)
        self.held.clear()
        status_line = head.split(b" ", 2)
        if len(status_line) < 2 or not status_line[0].startswith(b"HTTP/1.") or not status_line[1][:3].isdigit():
            raise MalformedResponseHead("sent a response that is not HTTP")
        return int(status_line[1][:3]), head + _END_OF_HEAD, rest

    async def read_rest(self, size: int, limit: int, seconds: float) -> bytes:
        """Return up to *size* bytes, at most *limit*; fewer if the connection closes or *seconds* elapse."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self.held) < min(size, limit) and not self.closed:
                    await self._more()
        return bytes(self.held[: min(size, limit)])

    async def _more(self) -> None:
        self._tunnel.activity.clear()
        await self._tunnel.activity.wait()

    # --- asyncio.BufferedProtocol -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = stream = cast(asyncio.Transport, transport)  # Those of uvloop are not subclasses.
        stream.set_write_buffer_limits(high=BUFFER_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._tunnel.piece

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._tunnel.piece[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Receive data; also called with data from before this protocol was attached to its connection."""
        other = self._other
        if other is None:
            self.held += data
            self._tunnel.activity.set()
            return
        self.passed += len(data)
        self._tunnel.byte_passed()
        other.send(data)

    def pause_writing(self) -> None:
        self._reading(on=False)

    def resume_writing(self) -> None:
        self._reading(on=True)

    def _reading(self, *, on: bool) -> None:
        """Pause or resume reading from the other side, for backpressure."""
        transport = self._other._transport if self._other is not None else None
        if transport is not None and not transport.is_closing():
            with contextlib.suppress(RuntimeError):  # Already paused, or not paused.
                (transport.resume_reading if on else transport.pause_reading)()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.closed = True
        # Otherwise these cycles keep the buffers of both connections until a complete garbage collection.
        self._transport = self._other = None
        self._tunnel.activity.set()


class HasHeaders(Protocol):
    """A request of any HTTP library."""

    @property
    def headers(self) -> Mapping[str, str]: ...


def is_upgrade(request: HasHeaders) -> bool:
    """Return whether the client requests another protocol on this connection."""
    options = {part.strip().lower() for part in request.headers.get("Connection", "").split(",")}
    return "upgrade" in options and bool(request.headers.get("Upgrade"))


def without_token(value: bytes) -> bytes:
    """Return the value of ``Sec-WebSocket-Protocol`` without the subprotocol that carries a browser's token."""
    names = [part.strip() for part in value.split(b",")]
    return b", ".join(part for part in names if not part.startswith(TOKEN_PROTOCOL))


TOKEN_PROTOCOL = b"base64url.bearer.authorization."
