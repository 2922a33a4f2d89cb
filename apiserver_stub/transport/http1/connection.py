"""HTTP/1.1 connections: parsing, order of requests, idle time and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import httptools
from multidict import CIMultiDict, CIMultiDictProxy

from apiserver_stub.transport.backpressure import Backpressure
from apiserver_stub.transport.connection_log import ThrottledConnectionLog
from apiserver_stub.transport.http import Handler
from apiserver_stub.transport.http1.body import RequestBody
from apiserver_stub.transport.http1.request import Http1Request, rejection

_log = logging.getLogger(__name__)

_MAX_FIELDS, _MAX_FIELD_BYTES, _MAX_LINE_BYTES = 256, 16 << 10, 64 << 10
"""Limits of the head of a request; it has at most 4 MiB."""
_MAX_WAITING_BYTES = 256 << 10
"""Received data of later requests at which receiving is paused."""
_LINGERING_SECONDS = 10.0
"""Time limit for receiving the rest of a request after its response."""
_SETTLING_SECONDS = 0.005
"""Time after a response in which a further request that was already sent may arrive."""


class _HeadTooLong(Exception):
    """The head of a request exceeds a limit."""


class Server:
    """Handler of requests, and all connections that call it."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.connections: dict[Connection, None] = {}
        """Open connections, in the order of their start."""
        self._cancelled: set[asyncio.Task[None]] = set()
        """Requests in progress whose connection was lost."""

    def pre_shutdown(self) -> None:
        """Close idle connections, and others after their requests in progress."""
        for connection in list(self.connections):
            connection.leave()

    async def shutdown(self, seconds: float) -> None:
        """Wait for requests in progress, at most *seconds*, and close all connections."""
        self.pre_shutdown()
        running = [connection.task for connection in self.connections if connection.task is not None]
        if tasks := {*running, *self._cancelled}:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for connection in list(self.connections):
            connection.force_close()

    def cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel a request whose connection was lost."""
        task.cancel()
        self._cancelled.add(task)
        task.add_done_callback(self._cancelled.discard)


def create_server(handler: Handler) -> Server:
    """Return the server whose connections pass requests to *handler*."""
    return Server(handler)


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection, from its TLS handshake on; it handles one request at a time.

    :param address: address of the client, empty for a Unix socket.
    :param closed: called once, when the connection is closed.
    """

    def __init__(
        self,
        server: Server,
        address: str,
        closed: Callable[[], None],
        error_log: ThrottledConnectionLog,
        *,
        idle_seconds: float,
    ) -> None:
        self.address, self._server, self._closed_callback, self._error_log = address, server, closed, error_log
        self._loop = asyncio.get_running_loop()
        self._idle_seconds = idle_seconds
        self.unused_since = self._loop.time()
        """Loop time of the last response, at first of the start."""
        self.task: asyncio.Task[None] | None = None
        """Handler of the current request."""
        self.transport: asyncio.Transport | None = None
        self.tls: Any = None
        self.writes = Backpressure()
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Http1Request] = deque()
        """Requests that were received during the current one."""
        self._timer: asyncio.TimerHandle | None = None
        self._rejection = ""
        """Problem of the last request, after which nothing is parsed."""
        self._unparsed: bytearray | None = None
        """Data after a request to upgrade, which may belong to another protocol."""
        self._leaving = self._upgraded = False
        self._paused = False
        self._waiting_bytes = 0
        """Upper bound of the data that was received for the requests in the queue."""
        self._url, self._fields = b"", CIMultiDict[str]()
        self._in_head = False
        self._field_count = 0
        """Headers and trailers of the request that is being received."""
        self._received_bytes = self._parsed_bytes = 0
        """Received data, and the complete elements in it, since the start of the head or the last body data."""
        self._body: RequestBody | None = None
        """Body of the request that is being received."""

    # Lifecycle

    @property
    def idle(self) -> bool:
        """True while no request is in progress or received completely."""
        settled = self._loop.time() - self.unused_since > _SETTLING_SECONDS
        return settled and self.task is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.tls = transport.get_extra_info("ssl_object")
        self._server.connections[self] = None
        self._check_idle()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.transport is None:
            return
        self.transport, self._body = None, None
        self._server.connections.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        self.writes.lose()
        if self.task is not None and not self._upgraded:
            self._server.cancel(self.task)
        self.task = None
        del self._parser  # Like the exception of the task, it refers to this connection.
        self._closed_callback()

    def pause_writing(self) -> None:
        self.writes.pause()

    def resume_writing(self) -> None:
        self.writes.resume()

    def leave(self) -> None:
        """Close the connection, after the request in progress if there is one."""
        self._leaving = True
        if self.task is None:
            self.force_close()

    def force_close(self) -> None:
        """Close the connection."""
        if self.transport is not None:
            self.transport.close()

    # Receiving

    def data_received(self, data: bytes) -> None:
        if self._rejection or self.transport is None:
            return
        if self._unparsed is not None:
            self._unparsed += data
            if len(self._unparsed) > _MAX_WAITING_BYTES:
                self._pause()
            return
        self._received_bytes += len(data)
        if self.task is not None:
            self._waiting_bytes += len(data)
            if self._waiting_bytes > _MAX_WAITING_BYTES and self._waiting:
                self._pause()
        try:
            self._parser.feed_data(data)
            if self._received_bytes - self._parsed_bytes > _MAX_LINE_BYTES:
                self._reject("Request line, header or trailer is too long")
        except httptools.HttpParserUpgrade as upgrade:
            self._unparsed = bytearray(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._reject(str(error.__context__ or error))

    def on_message_begin(self) -> None:
        """Start the head of a request."""
        self._url, self._fields = b"", CIMultiDict()
        self._in_head, self._field_count = True, 0
        self._expect_element()

    def on_url(self, url: bytes) -> None:
        """Add a part of the request target."""
        self._url += url
        self._parsed_bytes += len(url)
        if len(self._url) > _MAX_LINE_BYTES:
            raise _HeadTooLong("Request line is too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header, or ignore a trailer, which a front end may have passed unfiltered."""
        self._parsed_bytes += len(name) + len(value)
        self._field_count += 1
        if len(value) > _MAX_FIELD_BYTES or self._field_count > _MAX_FIELDS:
            raise _HeadTooLong("Too many or too long headers")
        if self._in_head:
            self._fields.add(name.decode(), value.strip(b" \t").decode("utf-8", "surrogateescape"))

    def on_headers_complete(self) -> None:
        """Start the request, or queue it if another one is in progress."""
        self._in_head = False
        self._expect_element()
        parser = self._parser
        self._body = body = RequestBody(self)
        http = Http1Request(
            parser.get_method().decode(),
            _target(self._url),
            (1, 0) if parser.get_http_version() == "1.0" else (1, 1),
            CIMultiDictProxy(self._fields),
            body,
            self,
            keep_alive=parser.should_keep_alive(),
        )
        if self.task is None:
            self._start(http)
        else:
            self._waiting.append(http)

    def on_body(self, data: bytes) -> None:
        """Add a part of the body."""
        self._expect_element()
        if self._body is not None:
            self._body.feed(data)

    def on_message_complete(self) -> None:
        """Complete the body."""
        if self._body is not None:
            self._body.finish()
            self._body = None

    def _expect_element(self) -> None:
        """Count the data until the next element is complete."""
        self._received_bytes = self._parsed_bytes = 0

    def pause_body(self) -> None:
        self._pause()

    def resume_body(self) -> None:
        if self._unparsed is None and not self._waiting:
            self._resume()

    def _pause(self) -> None:
        if not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and self.transport is not None and not self.transport.is_closing():
            self._paused = False
            self.transport.resume_reading()

    def _reject(self, problem: str) -> None:
        """Parse nothing more: the last request is malformed."""
        self._rejection = problem
        if self._body is not None:
            self._body.fail(problem)
        elif self.task is None:
            self._respond_malformed()

    def _respond_malformed(self) -> None:
        self._error_log.report("Failed to parse HTTP request", self.address, self._rejection)
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(rejection(400, self._rejection))
            self.transport.close()

    # Handling

    def _start(self, http: Http1Request) -> None:
        self.task = self._loop.create_task(self._serve(http))

    async def _serve(self, http: Http1Request) -> None:
        try:
            await self._server.handler(http)
        except ConnectionError:
            pass  # the connection closes
        except Exception:
            _log.exception("apiserver panic'd", extra={"method": http.method, "URI": http.path})
            if not http.started:
                http.reject(500, "Internal Server Error")
        except asyncio.CancelledError:
            self.force_close()
            raise
        finally:
            self.unused_since = self._loop.time()
            if self._upgraded:
                self.force_close()
                self.connection_lost(None)
        if self.transport is not None:
            if http.completed and not http.body_buffer.complete:
                await _receive_rest(http.body_buffer)
            self._finish(http)

    def _finish(self, http: Http1Request) -> None:
        """Start the next request or close the connection."""
        self.task = None
        reusable = http.completed and http.keep_alive and http.body_buffer.complete
        if not reusable or (self._leaving and not self._waiting):
            self.force_close()
        elif self._waiting:
            self._start(self._waiting.popleft())
            if not self._waiting and self._unparsed is None:
                self._waiting_bytes = 0
                self._resume()
        elif self._rejection:
            self._respond_malformed()
        else:
            self._waiting_bytes = 0
            if self._unparsed is not None:  # The request to upgrade was handled like others.
                data, self._unparsed = bytes(self._unparsed), None
                self._parser = httptools.HttpRequestParser(self)
                self.data_received(data)
            self._resume()

    def upgrade(self, protocol: asyncio.BaseProtocol) -> Callable[[], None]:
        """Detach the connection from HTTP; the returned function passes it to *protocol*."""
        self._upgraded = True
        data, self._unparsed = bytes(self._unparsed or b""), None
        transport = cast(asyncio.Transport, self.transport)
        protocol.connection_made(transport)
        transport.set_protocol(protocol)
        self._resume()

        def pass_data() -> None:
            if data and isinstance(protocol, asyncio.Protocol):
                protocol.data_received(data)

        return pass_data

    def _check_idle(self) -> None:
        """Close the connection at the end of its idle timeout, and check it again when that may have ended."""
        now = self._loop.time()
        idle_until = (self.unused_since if self.task is None else now) + self._idle_seconds
        if now < idle_until:  # Not a remaining time, as the sum with one that is very short is the current time.
            self._timer = self._loop.call_at(idle_until, self._check_idle)
        else:
            self.force_close()


async def _receive_rest(body: RequestBody) -> None:
    """Receive and drop the rest of a request whose response is complete, within a time limit."""
    body.discard()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGERING_SECONDS):
            await body.wait_complete()


def _target(url: bytes) -> str:
    """Return the path and query of a request target."""
    if not url.startswith(b"/") and b"://" in url:
        parts = httptools.parse_url(url)
        url = (parts.path or b"/") + (b"?" + parts.query if parts.query else b"")
    return url.decode("utf-8", "surrogateescape")
