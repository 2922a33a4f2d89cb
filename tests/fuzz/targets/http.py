"""HTTP/1.1 and HTTP/2: requests of clients, and responses to probes and tunnels."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from apiserver_stub.apimachinery import media
from apiserver_stub.apimachinery.request import Query, parse_path
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.transport.connection_log import ThrottledConnectionLog
from apiserver_stub.transport.http import BodyTooLong, HttpRequest, MalformedBody
from apiserver_stub.transport.http1.connection import Connection, create_server
from apiserver_stub.transport.http2.connection import Http2Connection
from apiserver_stub.transport.http2.negotiation import Terms
from apiserver_stub.transport.sub_protocols import sub_protocols
from apiserver_stub.transport.websocket import can_accept, is_websocket
from nodeagent.apiclient.http2 import Http2Connection as ClientSide
from nodeagent.apiclient.transport import ConnectionLost
from nodeagent.base import gourl
from nodeagent.base.aio import SystemClock
from nodeagent.base.identity import Identity
from nodeagent.base.tunnel import End, MalformedResponseHead, Tunnel, is_upgrade
from nodeagent.server.http1 import BadRequest, ServerSide
from nodeagent_plugins.probes.exchange import encode_request, exchange
from tests.fuzz.connections import Transport, drive, settle
from tests.fuzz.target import target

IDENTITY = Identity()
PROBE = encode_request("/healthz", [("Host", "a")])
HTTP1 = (
    b"GET / HTTP/1.1\r\n",
    b"\r\n\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"0\r\n\r\n",
    b"3\r\nabc\r\n",
    b"Connection: close\r\n",
    b"Upgrade: websocket\r\n",
    b"Expect: 100-continue\r\n",
    b"Host: a\r\n",
    b"HTTP/1.0",
    b"http://[::1]:0/",
    b"POST",
    b"CONNECT",
    b"Content-Length: +3\r\n",
    b"Transfer-Encoding: identity\r\n",
)


class _Handler:
    """Handler that reads each request completely, and records it."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.failures: list[Exception] = []

    async def handle(self, http: HttpRequest) -> None:
        try:
            await self._handle(http)
        except ConnectionError:
            raise
        except Exception as error:
            self.failures.append(error)
            raise

    async def _handle(self, http: HttpRequest) -> None:
        head = (http.method, http.target, http.version, list(http.headers.items()))
        is_websocket(http), can_accept(http), is_upgrade(http), sub_protocols(http.headers)
        query = Query(http.target.partition("?")[2])
        parse_path(http.method, http.path, query)
        with contextlib.suppress(ApiError):
            media.negotiate(http.headers.get("Accept", ""), IDENTITY, watch=False, protobuf=True)
        try:
            body = await http.read_body(1024)
        except (BodyTooLong, MalformedBody) as error:
            self.requests.append((head, type(error)))
            return
        self.requests.append((head, body))
        await http.respond(200, [("Content-Type", "text/plain")], [b"body"])

    def check(self) -> None:
        if self.failures:
            raise self.failures[0]


@target(tokens=HTTP1)
def http1_request(data: bytes) -> None:
    """The requests do not depend on the pieces in which they are received."""
    complete = drive(_requests1([data]))
    assert drive(_requests1([data[at : at + 7] for at in range(0, len(data), 7)])) == complete


async def _requests1(pieces: list[bytes]) -> list[Any]:
    handler, transport = _Handler(), Transport()
    server = create_server(handler.handle)
    connection = Connection(server, "192.0.2.1", lambda: None, ThrottledConnectionLog(), idle_seconds=90)
    connection.connection_made(transport)
    for piece in pieces:
        if not transport.is_closing():
            connection.data_received(piece)
            await settle()
    await settle()
    connection.connection_lost(None)
    assert not server.connections
    await server.shutdown(1)
    handler.check()
    return handler.requests


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"


@target(
    tokens=(
        b"\x00\x00\x00\x04\x01\x00\x00\x00\x00",
        b"\x00\x00\x08\x06\x00\x00\x00\x00\x00",
        b"\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08",
        b"\x00\x00\x04\x08\x00\x00\x00\x00\x01\x7f\xff\xff\xff",
        b"\x82\x84\x87",
        b"\x00\x00\x01\x00\x01\x00\x00\x00\x01a",
        b"\x00\x00\x01\x01\x05\x00\x00\x00\x01",
    )
)
def http2_frames(data: bytes) -> None:
    """The requests do not depend on the pieces in which they are received; nothing is left of a lost connection."""
    complete = drive(_requests2([PREFACE + data]))
    assert drive(_requests2([PREFACE, *(data[at : at + 5] for at in range(0, len(data), 5))])) == complete


async def _requests2(pieces: list[bytes]) -> list[Any]:
    handler, transport, closed = _Handler(), Transport(), []
    connection = Http2Connection(
        Terms(10), "192.0.2.1", handler.handle, lambda: closed.append(1), lambda error: None, idle_seconds=90
    )
    connection.connection_made(transport)
    for piece in pieces:
        if not transport.is_closing():
            connection.data_received(piece)
    await settle()
    connection.connection_lost(None)
    await asyncio.gather(*connection.tasks, return_exceptions=True)
    handler.check()
    assert closed == [1]
    assert connection.idle
    return sorted(handler.requests, key=repr)


@target(
    tokens=(
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        b"\x00\x00\x01\x01\x04\x00\x00\x00\x01\x88",
        b"\x00\x00\x01\x00\x01\x00\x00\x00\x03a",
        b"\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08",
        b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00",
        b"\x00\x00\x08\x06\x00\x00\x00\x00\x00",
    )
)
def http2_responses(data: bytes) -> None:
    """Each stream of a lost connection ends; an invalid frame discards only what is received with it."""
    complete = drive(_responses([data]))
    pieces = drive(_responses([data[at : at + 5] for at in range(0, len(data), 5)]))
    assert all(part.startswith(whole) for (_, whole), (_, part) in zip(complete, pieces, strict=True))


async def _responses(pieces: list[bytes]) -> list[tuple[int, bytes]]:
    reader, transport = asyncio.StreamReader(), Transport()
    writer = asyncio.StreamWriter(transport, asyncio.StreamReaderProtocol(reader), reader, asyncio.get_running_loop())
    connection = ClientSide(writer)
    await connection.take_over(reader)
    received = [asyncio.create_task(_received(connection, path)) for path in ("/first", "/second")]
    await settle()
    for piece in pieces:
        connection.data_received(piece)
        await settle()
    connection.connection_lost(None)
    assert not connection.is_available
    return await asyncio.gather(*received)


async def _received(connection: ClientSide, path: str) -> tuple[int, bytes]:
    """Return the status and the body that have arrived before the stream ended."""
    stream, status, body = connection.open("GET", "https", path, {"Host": "api"}), 0, b""
    try:
        status = (await stream.head()).status
        while piece := await stream.read():
            body += piece
    except ConnectionLost:
        pass
    finally:
        stream.close()
    return status, body


@target(BadRequest, tokens=HTTP1)
def health_request(data: bytes) -> None:
    """The server of the health port reads requests one after the other, until the client closes."""

    async def serve() -> None:
        reader, writer = asyncio.StreamReader(), _Writer()
        reader.feed_data(data)
        reader.feed_eof()
        connection = ServerSide(reader, writer)  # type: ignore[arg-type]
        while await connection.request() is not None:
            await connection.respond(200, "ok")

    drive(serve())


class _Writer:
    def write(self, data: bytes) -> None:
        """Discard *data*."""

    async def drain(self) -> None:
        """Return immediately."""


class _Pieces:
    """Reader of *data* in pieces of a size."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size = data, size

    async def read(self, size: int) -> bytes:
        piece, self._data = self._data[: self._size], self._data[self._size :]
        return piece


class _Connection:
    def __init__(self, reader: _Pieces) -> None:
        self.reader, self.writer = reader, _Writer()


@target(
    ValueError,
    EOFError,
    tokens=(*HTTP1, b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 101", b"HTTP/1.1 100 Continue\r\n\r\n", b"Location: http://"),
)
def probe_response(data: bytes) -> None:
    """The response does not depend on the pieces in which it is received, and its body is bounded."""
    response = drive(exchange(_Connection(_Pieces(data, 1 << 14)), PROBE))  # type: ignore[arg-type]
    assert len(response.body) <= 10 * 1024
    assert 0 <= response.status < 1000
    assert drive(exchange(_Connection(_Pieces(data, 7)), PROBE)) == response  # type: ignore[arg-type]


@target(MalformedResponseHead, tokens=(b"HTTP/1.1 101 Switching Protocols\r\n", b"\r\n\r\n", b"HTTP/1."))
def tunnel_response(data: bytes) -> None:
    """The status of the other side has three digits."""

    async def read() -> None:
        end = End(Tunnel(SystemClock()))
        end.data_received(data)
        end.connection_lost(None)
        status, head, rest = await end.read_head(1)
        assert head + rest == data
        assert status < 1000

    drive(read())


@target(
    gourl.InvalidUrl, UnicodeDecodeError, tokens=(b"http://", b"[fe80::1%25en0]", b"%2F", b"?", b"#", b"@", b":65536")
)
def url(data: bytes) -> None:
    """Both forms of a URL are parsed or rejected."""
    text = data.decode()
    gourl.parse(text)
    gourl.parse_request(text)


@target(
    ApiError,
    tokens=(
        b"/api/v1/namespaces/",
        b"/apis/apps/v1/",
        b"pods",
        b"/proxy/",
        b"?watch=1",
        b"/status",
        b"%2e%2e",
        b"//",
        b"GET ",
        b"POST ",
    ),
)
def request_path(data: bytes) -> None:
    """Each path has attributes for authorization."""
    method, _, target_text = data.decode("utf-8", "surrogateescape").partition(" ")
    path, _, query = target_text.partition("?")
    assert parse_path(method or "GET", path, Query(query)).verb
