"""Streamed requests of one server, many on each HTTP/2 connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nodeagent.apiclient.connection import Connection
from nodeagent.apiclient.dial import open_streams
from nodeagent.apiclient.pool import Pool
from nodeagent.apiclient.transport import HTTP2, ConnectionLost, Request, Response, Source

if TYPE_CHECKING:
    from nodeagent.apiclient.http2 import Http2Connection, Http2Stream


class StreamPool:
    """HTTP/2 connections, which are opened when all others carry as many streams as they may.

    If the server does not support HTTP/2, each stream uses a connection of *pool*.

    :param context: for TLS, with :data:`HTTP2` as a protocol; ``None`` for plain HTTP, which is always HTTP/1.1.
    """

    def __init__(self, pool: Pool, context: ssl.SSLContext | None) -> None:
        self._pool, self._context = pool, context
        self._connections: list[Http2Connection] = []
        self._dialing = asyncio.Lock()
        self._supported = context is not None
        self._closed = False

    @asynccontextmanager
    async def exchange(self, request: Request) -> AsyncIterator[tuple[Source, Response]]:
        """Send *request*, which has no body, and return its response.

        :raises ConnectionLost: the connection failed, or the request or the response is invalid.
        :raises OSError: the connection failed.
        """
        if (opened := await self._opened(request)) is None:
            async with self._pool.exchange(request) as exchange:
                yield exchange
            return
        stream, head = opened
        try:
            yield stream, head
        finally:
            stream.close()

    def close(self) -> None:
        """Close all connections of HTTP/2; streams on them fail."""
        self._closed = True
        for connection in self._connections:
            connection.abort()

    async def _opened(self, request: Request) -> tuple[Http2Stream, Response] | None:
        """Return the stream of *request*; ``None`` if the server does not support HTTP/2."""
        if (connection := self._available()) is not None:
            try:
                return await self._open(connection, request)
            except ConnectionLost:
                pass  # The server may have closed the connection at the same time.
        connection = await self._connection()
        return await self._open(connection, request) if connection is not None else None

    async def _open(self, connection: Http2Connection, request: Request) -> tuple[Http2Stream, Response]:
        way = self._pool.route
        stream = connection.open(request.method, way.server.scheme, way.target(request.target), request.headers)
        try:
            return stream, await stream.head()
        except BaseException:
            stream.close()
            raise

    def _available(self) -> Http2Connection | None:
        return next((connection for connection in self._connections if connection.is_available), None)

    async def _connection(self) -> Http2Connection | None:
        """Return a connection with a free stream; ``None`` if the server does not support HTTP/2."""
        async with self._dialing:
            if not self._supported:
                return None
            if (connection := self._available()) is not None:
                return connection
            pool = self._pool
            reader, writer = await open_streams(pool.route, self._context, pool.context, pool.server_name)
            if writer.get_extra_info("ssl_object").selected_alpn_protocol() != HTTP2:
                self._supported = False
                pool.adopt(Connection(reader, writer))
                return None
            from nodeagent.apiclient.http2 import Http2Connection

            connection = Http2Connection(writer)
            await connection.take_over(reader)
            self._connections = [each for each in self._connections if not each.is_closed] + [connection]
            if self._closed:
                connection.abort()
            return connection
