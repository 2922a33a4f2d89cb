"""Pool of connections to one server with the same credentials."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nodeagent.apiclient.connection import Connection
from nodeagent.apiclient.dial import dial
from nodeagent.apiclient.route import Route
from nodeagent.apiclient.transport import ConnectionLost, Request, Response, Source
from nodeagent.base.aio import Clock

_KEEP_ALIVE_SECONDS = 90.0
_IDEMPOTENT = frozenset({"GET", "PUT", "DELETE"})


class Pool:
    """Connections that are reused for :data:`_KEEP_ALIVE_SECONDS` after their last request.

    :param context: for TLS; ``None`` for plain HTTP.
    :param server_name: name in the server's certificate; empty for the host of its URL.
    """

    def __init__(self, route: Route, context: ssl.SSLContext | None, server_name: str, clock: Clock) -> None:
        self.route, self.context, self.server_name = route, context, server_name
        self._clock = clock
        self._idle: list[tuple[float, Connection]] = []
        self._busy: set[Connection] = set()
        self._closed = False

    @asynccontextmanager
    async def exchange(self, request: Request) -> AsyncIterator[tuple[Source, Response]]:
        """Send *request* and return its response; see :meth:`send`."""
        connection, head = await self.send(request)
        try:
            yield connection, head
        finally:
            self.release(connection)

    async def send(self, request: Request) -> tuple[Connection, Response]:
        """Send *request* and return the head of the response, and its connection, to be passed to :meth:`release`.

        :raises ConnectionLost: the connection failed, or the request or the response is invalid.
        :raises OSError: the connection failed.
        """
        connection = self._reused() or await self._dialed()
        try:
            return connection, await self._send(connection, request)
        except (ConnectionLost, OSError):
            # The server may have closed an idle connection at the same time.
            if connection.is_new or request.method not in _IDEMPOTENT:
                raise
        connection = await self._dialed()
        return connection, await self._send(connection, request)

    def adopt(self, connection: Connection) -> None:
        """Use *connection*, which no request has used, for the next one."""
        if self._closed:
            connection.abort()
        else:
            self._idle.append((self._clock.now(), connection))

    def release(self, connection: Connection) -> None:
        """Keep *connection* for the next request, or close it if its response is not complete."""
        self._busy.discard(connection)
        if self._closed or not connection.reusable:
            connection.abort()
        else:
            self._idle.append((self._clock.now(), connection))
        self._close_unused()

    def close(self) -> None:
        """Close all connections, also those in use."""
        self._closed = True
        for connection in (*self._busy, *(connection for _, connection in self._idle)):
            connection.abort()
        self._busy.clear()
        self._idle.clear()

    async def _send(self, connection: Connection, request: Request) -> Response:
        target = self.route.target(request.target)
        try:
            return await connection.send(request.method, target, request.headers, request.body)
        except BaseException:
            self.release(connection)
            raise

    def _reused(self) -> Connection | None:
        """Return the connection that was used last, because the server closes idle ones."""
        self._close_unused()
        while self._idle:
            _, connection = self._idle.pop()
            if connection.reusable:
                self._busy.add(connection)
                return connection
            connection.abort()
        return None

    async def _dialed(self) -> Connection:
        connection = await dial(self.route, self.context, self.server_name)
        if self._closed:
            connection.abort()
        self._busy.add(connection)
        return connection

    def _close_unused(self) -> None:
        limit = self._clock.now() - _KEEP_ALIVE_SECONDS
        while self._idle and self._idle[0][0] < limit:
            self._idle.pop(0)[1].abort()
