"""Joins a client's connection to the runtime's streaming endpoint: the request's head, then bytes both ways.

Nothing is understood on the way, so SPDY and WebSocket pass alike. What one side does not take in makes the other
wait; nothing piles up here. The runtime's answer decides: only 101 opens the way, a redirect is never followed.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast
from urllib.parse import urlsplit

from aiohttp import web

from nodeagent.base.aio import Clock
from nodeagent.base.aio.waker import wait_for
from nodeagent.contracts.server import SENT_BYTES

CONNECT_SECONDS = 10.0
HEAD_SECONDS = 30.0
MAX_HEAD_BYTES = 64 * 1024
CLOSE_SECONDS = 5.0
BUFFER_BYTES = 256 * 1024
TOKEN_PROTOCOL = b"base64url.bearer.authorization."
_KEPT_TO_OURSELVES = frozenset({b"authorization", b"cookie", b"host", b"proxy-authorization"})


class Tunnel:
    """One joined pair of connections.

    :param idle_seconds: without a byte in either direction for so long, both are closed; 0 is no limit
        (spec: config.streamingConnectionIdleTimeout).
    """

    def __init__(self, clock: Clock, idle_seconds: float) -> None:
        self._clock, self._idle_seconds = clock, idle_seconds
        self._last_byte_at = clock.now()
        self.news = asyncio.Event()

    async def join(self, request: web.Request, url: str) -> web.StreamResponse:
        """Send the request on to *url* and pass bytes until one side closes; return what ends the request.

        :raises web.HTTPException: the runtime's end cannot be reached or refuses.
        """
        runtime = _End(self)
        try:
            await _connect(runtime, request, url)
            head, rest = await self._head(runtime)
            status = _status(head)
            if status != 101:
                raise _refusal(status, rest)
            client = _take_over(request, self)
            try:
                client.send(head + rest)
                runtime.meet(client)
                client.meet(runtime)
                await self._until_closed(runtime, client)
            finally:
                SENT_BYTES.get().count = runtime.passed
                client.close()
        finally:
            runtime.close()
        return _Taken(status=101)

    def byte_passed(self) -> None:
        self._last_byte_at = self._clock.now()

    async def _head(self, runtime: _End) -> tuple[bytes, bytes]:
        """Return the head of the runtime's answer and what came after it."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                while b"\r\n\r\n" not in runtime.held:
                    if runtime.closed or len(runtime.held) > MAX_HEAD_BYTES:
                        raise web.HTTPBadGateway(text="the runtime's streaming endpoint gave no usable answer\n")
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            raise web.HTTPGatewayTimeout(text="the runtime's streaming endpoint gave no answer\n") from None
        head, _, rest = bytes(runtime.held).partition(b"\r\n\r\n")
        runtime.held.clear()
        return head + b"\r\n\r\n", rest

    async def _until_closed(self, *ends: _End) -> None:
        while not any(end.closed for end in ends):
            self.news.clear()
            if not self._idle_seconds:
                await self.news.wait()
                continue
            left = self._last_byte_at + self._idle_seconds - self._clock.now()
            if left <= 0:
                return
            await wait_for(self.news, self._clock, left)


class _End(asyncio.Protocol):
    """One side. Until both have met, what comes is held."""

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel
        self._other: _End | None = None
        self._transport: asyncio.Transport | None = None
        self.held = bytearray()
        self.passed = 0
        self.closed = False

    def meet(self, other: _End) -> None:
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

    # --- asyncio.Protocol -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = stream = cast(asyncio.Transport, transport)  # those of uvloop are no subclass
        stream.set_write_buffer_limits(high=BUFFER_BYTES)

    def data_received(self, data: bytes) -> None:
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


class _Taken(web.StreamResponse):
    """Ends a request whose connection was taken over: there is nothing left to send."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


def is_upgrade(request: web.Request) -> bool:
    """Whether the client asks for another protocol on this connection."""
    asked = {part.strip().lower() for part in request.headers.get("Connection", "").split(",")}
    return "upgrade" in asked and bool(request.headers.get("Upgrade"))


def is_websocket(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket"


async def _connect(runtime: _End, request: web.Request, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise web.HTTPBadGateway(text="the runtime's streaming endpoint is not plain HTTP on this machine\n")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().create_connection(lambda: runtime, parts.hostname, parts.port or 80)
    except (OSError, TimeoutError) as error:
        text = f"the runtime's streaming endpoint cannot be reached: {error}\n"
        raise web.HTTPBadGateway(text=text) from error
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{request.method} {target} HTTP/1.1".encode(), b"Host: " + parts.netloc.encode(), *_headers(request)]
    runtime.send(b"\r\n".join(lines) + b"\r\n\r\n")


def _headers(request: web.Request) -> list[bytes]:
    """Return the header lines that the runtime gets: all but what proves who asks."""
    lines = []
    for name, value in request.raw_headers:
        if name.lower() == b"sec-websocket-protocol":
            names = [part.strip() for part in value.split(b",")]
            kept = b", ".join(part for part in names if not part.startswith(TOKEN_PROTOCOL))
            if kept:
                lines.append(name + b": " + kept)
        elif name.lower() not in _KEPT_TO_OURSELVES:
            lines.append(name + b": " + value)
    return lines


def _status(head: bytes) -> int:
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1][:3].isdigit():
        raise web.HTTPBadGateway(text="the runtime's streaming endpoint does not speak HTTP\n")
    return int(words[1][:3])


def _refusal(status: int, rest: bytes) -> web.HTTPException:
    """Return the answer for a runtime that did not open the way; of its text, what came along."""
    text = rest[:4096].decode(errors="replace").strip()
    known: dict[int, type[web.HTTPException]] = {400: web.HTTPBadRequest, 403: web.HTTPForbidden, 404: web.HTTPNotFound}
    return known.get(status, web.HTTPBadGateway)(text=f"the runtime answered {status}: {text}\n")


def _take_over(request: web.Request, tunnel: Tunnel) -> _End:
    """Take the client's connection from the HTTP server, which is told of its end when the request is over."""
    transport, protocol = request.transport, request.protocol
    if transport is None or transport.is_closing():
        raise web.HTTPBadRequest(text="the client has gone\n")
    client = _End(tunnel)
    client.connection_made(transport)
    transport.set_protocol(client)
    request.task.add_done_callback(lambda _: protocol.connection_lost(None))
    return client
