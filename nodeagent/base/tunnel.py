"""Two connections joined into one: bytes pass both ways, not understood, so SPDY and WebSocket pass alike.

What one side does not take in makes the other wait; nothing piles up in between.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

from aiohttp import web

from nodeagent.base.aio import Clock
from nodeagent.base.aio.waker import wait_for

MAX_HEAD_BYTES = 64 * 1024
CLOSE_SECONDS = 5.0
BUFFER_BYTES = 256 * 1024
PIECE_BYTES = 56 * 1024
"""What is passed on at once: below what the agent's allocator fetches from the kernel anew each time."""
_END_OF_HEAD = b"\r\n\r\n"


class NoHead(Exception):
    """The other side closed, or sent what is no head of an HTTP answer."""


class Tunnel:
    """One joined pair of connections.

    :param idle_seconds: without a byte in either direction for so long, both are closed; 0 is no limit.
    """

    def __init__(self, clock: Clock, idle_seconds: float = 0) -> None:
        self._clock, self._idle_seconds = clock, idle_seconds
        self._last_byte_at = clock.now()
        self.news = asyncio.Event()
        self.piece = memoryview(bytearray(PIECE_BYTES))
        """What either side reads into; it holds nothing between two calls of the event loop."""

    def byte_passed(self) -> None:
        if self._idle_seconds:
            self._last_byte_at = self._clock.now()

    async def pass_bytes(self, one: End, other: End) -> None:
        """Pass bytes until one side closes or both are idle for too long."""
        one.meet(other)
        other.meet(one)
        while not (one.closed or other.closed):
            self.news.clear()
            if not self._idle_seconds:
                await self.news.wait()
                continue
            left = self._last_byte_at + self._idle_seconds - self._clock.now()
            if left <= 0:
                return
            await wait_for(self.news, self._clock, left)


class End(asyncio.BufferedProtocol):
    """One side. Until both have met, what comes is held."""

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel
        self._other: End | None = None
        self._transport: asyncio.Transport | None = None
        self.held = bytearray()
        self.passed = 0
        """Bytes that came in and went on to the other side."""
        self.closed = False

    def meet(self, other: End) -> None:
        """Pass on what came and what will come."""
        self._other = other
        if self.held:
            held, self.held = bytes(self.held), bytearray()
            self.data_received(held)

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close once everything is sent, within a limit."""
        transport = self._transport
        if transport is None or self.closed:
            return
        transport.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, transport.abort)

    async def read_head(self, seconds: float) -> tuple[int, bytes, bytes]:
        """Return the status, the head of the HTTP answer and what came after it.

        :raises NoHead: there is none, or one without an end.
        :raises TimeoutError: it did not come within *seconds*.
        """
        async with asyncio.timeout(seconds):
            while _END_OF_HEAD not in self.held:
                if self.closed or len(self.held) > MAX_HEAD_BYTES:
                    raise NoHead("gave no usable answer")
                await self._more()
        head, _, rest = bytes(self.held).partition(_END_OF_HEAD)
        self.held.clear()
        words = head.split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1][:3].isdigit():
            raise NoHead("does not speak HTTP")
        return int(words[1][:3]), head + _END_OF_HEAD, rest

    async def read_rest(self, size: int, limit: int, seconds: float) -> bytes:
        """Return up to *size* bytes and no more than *limit*, or what came before the end or *seconds* later."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self.held) < min(size, limit) and not self.closed:
                    await self._more()
        return bytes(self.held[: min(size, limit)])

    async def _more(self) -> None:
        self._tunnel.news.clear()
        await self._tunnel.news.wait()

    # --- asyncio.BufferedProtocol -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = stream = cast(asyncio.Transport, transport)  # those of uvloop are no subclass
        stream.set_write_buffer_limits(high=BUFFER_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._tunnel.piece

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._tunnel.piece[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Take what came; also called with what came before this protocol had its connection."""
        other = self._other
        if other is None:
            self.held += data
            self._tunnel.news.set()
            return
        self.passed += len(data)
        self._tunnel.byte_passed()
        other.send(data)

    def pause_writing(self) -> None:
        self._reading(on=False)

    def resume_writing(self) -> None:
        self._reading(on=True)

    def _reading(self, *, on: bool) -> None:
        """Let the other side wait while this one does not take more."""
        transport = self._other._transport if self._other is not None else None
        if transport is not None and not transport.is_closing():
            with contextlib.suppress(RuntimeError):  # paused already, or not at all
                (transport.resume_reading if on else transport.pause_reading)()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.closed = True
        self._tunnel.news.set()


class Taken(web.StreamResponse):
    """Ends a request whose connection was taken over: there is nothing left to send."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


def take_over(request: web.BaseRequest, tunnel: Tunnel) -> End:
    """Take the client's connection from the HTTP server, which is told of its end when the request is over.

    :raises ConnectionResetError: the client has gone.
    """
    transport, protocol = request.transport, request.protocol
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client has gone")
    client = End(tunnel)
    client.connection_made(transport)
    transport.set_protocol(client)
    request.task.add_done_callback(lambda _: protocol.connection_lost(None))
    return client


def is_upgrade(request: web.BaseRequest) -> bool:
    """Whether the client asks for another protocol on this connection."""
    asked = {part.strip().lower() for part in request.headers.get("Connection", "").split(",")}
    return "upgrade" in asked and bool(request.headers.get("Upgrade"))


def without_token(value: bytes) -> bytes:
    """Return the value of ``Sec-WebSocket-Protocol`` without the protocol by which a browser shows its token."""
    names = [part.strip() for part in value.split(b",")]
    return b", ".join(part for part in names if not part.startswith(TOKEN_PROTOCOL))


TOKEN_PROTOCOL = b"base64url.bearer.authorization."
