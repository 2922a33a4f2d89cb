"""Watches that share HTTP/2 connections, as those of client-go: their events are only searched for a mark.

The windows of the connection and its streams are as large as possible, so that a client that only reads needs few
instructions per event, and the server uses most of the CPU time of the host.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import cast
from urllib.parse import urlsplit

from hpack import Encoder

from tests.integration.programs import ApiServer

STREAMS = 100
"""Streams per connection, the usual limit of API servers."""
_LIMIT_SECONDS = 120.0
_MAX_WINDOW = (1 << 31) - 1
_DEFAULT_WINDOW = (1 << 16) - 1
_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE = 0, 1, 4, 6, 8
_ACK, _END_STREAM, _END_HEADERS = 1, 1, 4
_INITIAL_WINDOW_SIZE = 4
_HEAD_BYTES = 9


class WatchConnection(asyncio.Protocol):
    """A connection whose streams are watches.

    :param mark: matches each event that is to be received.
    :param receive: called with each match.
    """

    def __init__(self, mark: re.Pattern[bytes], receive: Callable[[re.Match[bytes]], None]) -> None:
        self._mark, self._receive = mark, receive
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._next = 1
        self._encoder = Encoder()
        self.opened = asyncio.Semaphore(0)
        """Released for each stream whose response has started."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        setting = _INITIAL_WINDOW_SIZE.to_bytes(2, "big") + _MAX_WINDOW.to_bytes(4, "big")
        self._transport.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, setting))
        self._transport.write(_frame(_WINDOW_UPDATE, 0, 0, (_MAX_WINDOW - _DEFAULT_WINDOW).to_bytes(4, "big")))

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport = None

    def open(self, headers: Mapping[str, str]) -> None:
        """Send a request without a body; *headers* include the pseudo-header fields."""
        assert self._transport is not None, "the server has closed the connection"
        block = self._encoder.encode(list(headers.items()))
        self._transport.write(_frame(_HEADERS, _END_STREAM | _END_HEADERS, self._next, block))
        self._next += 2

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        data, start = self._rest + data, 0
        while len(data) - start >= _HEAD_BYTES:
            end = start + _HEAD_BYTES + int.from_bytes(data[start : start + 3], "big")
            if end > len(data):
                break
            kind, flags = data[start + 3], data[start + 4]
            if kind == _DATA:
                for match in self._mark.finditer(data, start, end):
                    self._receive(match)
            else:
                self._act(kind, flags, data[start + _HEAD_BYTES : end])
            start = end
        self._rest = data[start:]

    def _act(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == _HEADERS:
            self.opened.release()
        elif kind in (_SETTINGS, _PING) and not flags & _ACK and self._transport is not None:
            self._transport.write(_frame(kind, _ACK, 0, payload if kind == _PING else b""))


async def open_watches(
    server: ApiServer, paths: Sequence[str], mark: re.Pattern[bytes], receive: Callable[[re.Match[bytes]], None]
) -> list[WatchConnection]:
    """Open a watch of each path; return once all have started.

    :param mark: see :class:`WatchConnection`.
    :raises TimeoutError: a watch has not started within :data:`_LIMIT_SECONDS`.
    """
    parts = urlsplit(server.facts["url"])
    tls = ssl.create_default_context(cafile=server.facts["caFile"])
    tls.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    connections = []
    async with asyncio.timeout(_LIMIT_SECONDS):
        for first in range(0, len(paths), STREAMS):
            _, connection = await loop.create_connection(
                lambda: WatchConnection(mark, receive), parts.hostname, parts.port, ssl=tls
            )
            connections.append(connection)
            some = paths[first : first + STREAMS]
            for path in some:
                connection.open(
                    {
                        ":method": "GET",
                        ":scheme": "https",
                        ":authority": parts.netloc,
                        ":path": path,
                        "authorization": f"Bearer {server.facts['token']}",
                    }
                )
            for _ in some:
                await connection.opened.acquire()
    return connections


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
