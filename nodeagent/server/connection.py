"""HTTP connection of a client, with a time limit for its first request and limits for the size of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from nodeagent.server import listener

IDLE_SECONDS = 90.0
MAX_LINE_BYTES = 128 * 1024
"""Limit of the request line, which may contain a command."""
MAX_HEADER_BYTES = 16 * 1024
MAX_HEADERS = 64


class Connection(web.RequestHandler):
    """One connection; closed if its first request does not arrive in time."""

    __slots__ = ("_first_request", "_on_close")

    def __init__(self, server: web.Server, on_close: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=IDLE_SECONDS,
            access_log=None,  # type: ignore[arg-type]
            lingering_time=2.0,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
        )
        self._on_close = on_close
        self._first_request: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._first_request = asyncio.get_running_loop().call_later(listener.FIRST_REQUEST_SECONDS, self.force_close)

    def request_received(self) -> None:
        """Stop the timer of the first request, whose headers have been received."""
        if self._first_request is not None:
            self._first_request.cancel()
            self._first_request = None

    def connection_lost(self, exc: BaseException | None) -> None:
        self.request_received()
        super().connection_lost(exc)
        on_close, self._on_close = self._on_close, _nothing
        on_close()


def _nothing() -> None:
    pass
