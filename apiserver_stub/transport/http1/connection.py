"""Handler of one HTTP/1.1 connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from apiserver_stub.transport.backpressure import Backpressure
from apiserver_stub.transport.connection_log import ThrottledConnectionLog
from apiserver_stub.transport.http import Handler
from apiserver_stub.transport.http1.request import Http1Request

_log = logging.getLogger(__name__)

_MAX_HEADERS, _MAX_HEADER_BYTES, _MAX_LINE_BYTES = 256, 16 << 10, 64 << 10
"""Limits of a request's headers, 4 MiB in total."""
_LINGERING_SECONDS = 10.0
"""Time limit for reading the rest of a request after its response."""
_SETTLING_SECONDS = 0.005
"""Time after a response in which a further request that was already received starts."""


class Connection(web.RequestHandler):
    """Handler of one HTTP/1.1 connection, from its TLS handshake on.

    :param address: address of the client, empty for a Unix socket.
    :param closed: called once, when the connection is closed.
    """

    __slots__ = (
        "_busy",
        "_closed_callback",
        "_error_log",
        "_event_loop",
        "_received",
        "address",
        "tls",
        "unused_since",
        "writes",
    )

    def __init__(
        self,
        server: web.Server,
        address: str,
        closed: Callable[[], None],
        error_log: ThrottledConnectionLog,
        *,
        idle_seconds: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=idle_seconds,
            lingering_time=_LINGERING_SECONDS,
            max_headers=_MAX_HEADERS,
            max_field_size=_MAX_HEADER_BYTES,
            max_line_size=_MAX_LINE_BYTES,
            auto_decompress=False,  # request bodies are decompressed elsewhere
        )
        self.address, self._closed_callback, self._error_log = address, closed, error_log
        self.unused_since = loop.time()
        """Loop time of the last response, at first of the start."""
        self.tls: Any = None
        self.writes = Backpressure()
        self._event_loop = loop
        self._busy = self._received = False

    @property
    def idle(self) -> bool:
        """True while no request is in progress or received completely."""
        settled = self._event_loop.time() - self.unused_since > _SETTLING_SECONDS
        return settled and not self._busy and not self._received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.tls = transport.get_extra_info("ssl_object")
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.writes.lose()
        self._closed_callback()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._busy:
            self._received = True
            self._event_loop.call_soon(self._settle)  # by then, a complete request is in progress

    def pause_writing(self) -> None:
        super().pause_writing()
        self.writes.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.writes.resume()

    def begin_request(self) -> None:
        """Record that a request is in progress."""
        self._busy = True

    def end_request(self) -> None:
        """Record that the response is complete."""
        self._busy = False
        self.unused_since = self._event_loop.time()

    def _settle(self) -> None:
        self._received = False

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond to malformed HTTP with one line; other errors are handled as usual."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        self._error_log.report("Failed to parse HTTP request", self.address, exc.message)
        http = Http1Request(request, self)
        http.reject(status, (message or "").partition("\n")[0].rstrip(":"))
        return http.outcome


def create_server(handler: Handler) -> web.Server:
    """Return the server whose connections pass requests to *handler*."""

    def make(message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]) -> web.BaseRequest:
        protocol.begin_request()
        return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        connection = cast(Connection, request.protocol)
        http = Http1Request(request, connection)
        try:
            await handler(http)
        except ConnectionError:
            pass  # the connection closes
        except Exception:
            _log.exception("apiserver panic'd", extra={"method": http.method, "URI": http.path})
            if not http.started:
                http.reject(500, "Internal Server Error")
        finally:
            connection.end_request()
        return http.outcome

    respond: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]] = handle
    return web.Server(respond, request_factory=make, handler_cancellation=True)
