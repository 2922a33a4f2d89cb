"""Tests for the HTTP transport of the API client with servers that send prepared bytes."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from nodeagent.apiclient.http import HttpTransport
from nodeagent.apiclient.transport import ConnectionLost, Request, Response
from nodeagent.base.aio import SystemClock
from nodeagent.base.kubeconfig import Kubeconfig

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class Server:
    """Server that replies to the requests with *replies* in turn; an empty reply closes the connection."""

    def __init__(self, *replies: bytes) -> None:
        self.replies = list(replies)
        self.requests: list[str] = []
        self.connections = 0
        self.port = 0
        self._handlers: set[asyncio.Task[None] | None] = set()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[HttpTransport]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        transport = HttpTransport(Kubeconfig(source="test", server=f"http://127.0.0.1:{self.port}/base"), SystemClock())
        yield transport
        await transport.close()
        server.close()
        await server.wait_closed()
        for handler in filter(None, self._handlers):
            await handler

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._handlers.add(asyncio.current_task())
        try:
            while True:
                self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
                reply = self.replies.pop(0)
                writer.write(reply)
                if not reply or b"Connection: close" in reply:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def get(transport: HttpTransport, method: str = "GET", target: str = "/x", body: bytes = b"") -> Response:
    return await transport.request(Request(method, target, {"User-Agent": "test"}, body), 10)


async def test_request_has_the_path_of_the_server_and_the_host() -> None:
    server = Server(OK, OK)

    async with server.serve() as transport:
        response = await get(transport, target="/api?watch=1")
        await get(transport, "POST", body=b"")

    head = server.requests[0].split("\r\n")
    assert response.status == 200
    assert response.body == b"ok"
    assert head[0] == "GET /base/api?watch=1 HTTP/1.1"
    assert f"Host: 127.0.0.1:{server.port}" in head
    assert "User-Agent: test" in head
    assert "Content-Length: 0" in server.requests[1].split("\r\n")


async def test_connection_is_reused_unless_the_server_closes_it() -> None:
    server = Server(OK, CLOSING, OK)

    async with server.serve() as transport:
        for _ in range(3):
            assert (await get(transport)).body == b"ok"

    assert server.connections == 2


async def test_idempotent_request_on_a_closed_connection_is_repeated() -> None:
    server = Server(OK, b"", OK)

    async with server.serve() as transport:
        await get(transport)
        response = await get(transport)

    assert response.body == b"ok"
    assert server.connections == 2


async def test_other_request_on_a_closed_connection_is_not_repeated() -> None:
    server = Server(OK, b"", OK)

    async with server.serve() as transport:
        await get(transport)
        with pytest.raises(ConnectionLost, match="server disconnected"):
            await get(transport, "POST")

    assert len(server.requests) == 2


async def test_compressed_and_chunked_body_is_decoded() -> None:
    body = gzip.compress(b"text " * 1000)
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:20], body[20:])) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    server = Server(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + head + chunks)

    async with server.serve() as transport:
        response = await get(transport)

    assert response.body == b"text " * 1000
    assert "Accept-Encoding: gzip" in server.requests[0]


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
        b"nothing\r\n\r\n",
    ],
    ids=["length", "chunk", "gzip", "encoding", "head", "text"],
)
async def test_invalid_response_is_a_lost_connection(reply: bytes) -> None:
    server = Server(reply)

    async with server.serve() as transport:
        with pytest.raises(ConnectionLost, match="invalid response"):
            await get(transport)


async def test_stream_delivers_pieces_as_they_arrive_and_times_out_without() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")

    async with (
        server.serve() as transport,
        transport.stream(Request("GET", "/watch"), deadline_seconds=10, idle_seconds=0.05) as stream,
    ):
        first = await anext(stream.pieces)
        with pytest.raises(TimeoutError):
            await anext(stream.pieces)

    assert first == b"first"


async def test_failed_stream_has_the_complete_error() -> None:
    server = Server(b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone")

    async with (
        server.serve() as transport,
        transport.stream(Request("GET", "/watch"), deadline_seconds=10, idle_seconds=10) as stream,
    ):
        pieces = [piece async for piece in stream.pieces]

    assert stream.head == Response(410, {"content-length": "4"}, b"gone")
    assert pieces == []


async def test_requests_to_a_server_without_tls_are_forwarded_by_the_proxy() -> None:
    proxy = Server(OK)

    async with proxy.serve():
        way = Kubeconfig(
            source="test", server="http://api.invalid:8080", proxy_url=f"http://user:p%40ss@127.0.0.1:{proxy.port}"
        )
        transport = HttpTransport(way, SystemClock())
        response = await get(transport)
        await transport.close()

    head = proxy.requests[0].split("\r\n")
    assert response.body == b"ok"
    assert head[0] == "GET http://api.invalid:8080/x HTTP/1.1"
    assert "Host: api.invalid:8080" in head
    assert "Proxy-Authorization: Basic dXNlcjpwQHNz" in head


async def test_rejection_by_the_proxy_is_reported() -> None:
    proxy = Server(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    async with proxy.serve():
        way = Kubeconfig(source="test", server="https://api.invalid", proxy_url=f"http://127.0.0.1:{proxy.port}")
        transport = HttpTransport(way, SystemClock())
        with pytest.raises(ConnectionLost, match=r"CONNECT api\.invalid:443 failed with status 403"):
            await get(transport)
        await transport.close()


async def test_next_address_of_a_name_is_used_if_the_first_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(OK)

    async with server.serve() as transport:
        loop = asyncio.get_running_loop()
        addresses = [
            *(await loop.getaddrinfo("127.0.0.2", server.port, type=1)),
            *(await loop.getaddrinfo("127.0.0.1", server.port, type=1)),
        ]

        async def resolve(*_: object, **__: object) -> list[object]:
            return list(addresses)

        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        response = await get(transport)

    assert response.body == b"ok"


async def test_closed_transport_fails_requests_in_flight() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")

    async with (
        server.serve() as transport,
        transport.stream(Request("GET", "/watch"), deadline_seconds=10, idle_seconds=10) as stream,
    ):
        await transport.close()
        with pytest.raises(ConnectionLost):
            await anext(stream.pieces)
