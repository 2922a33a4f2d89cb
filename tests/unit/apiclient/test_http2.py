"""Tests for streams on an HTTP/2 connection: responses, flow control, cancellation, and the end of the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from h2.errors import ErrorCodes

from nodeagent.apiclient import http2 as http2_module
from nodeagent.apiclient.transport import ConnectionLost, Response
from tests.unit.apiclient.http2_server import HEADERS, Http2Server, settle


@pytest.fixture
async def server() -> AsyncIterator[Http2Server]:
    async with Http2Server() as server, asyncio.timeout(20):
        yield server


async def test_request_has_the_fields_of_http2(server: Http2Server) -> None:
    stream = server.open("/api?watch=1")
    server.respond(stream.number, 201)

    assert await stream.head() == Response(201, {"x-kind": "Test"})
    assert server.requests() == [
        {
            ":method": "GET",
            ":scheme": "https",
            ":authority": "api:6443",
            ":path": "/api?watch=1",
            "accept": "application/json",
        }
    ]


@pytest.mark.parametrize(
    ("target", "headers"), [("/a b", {}), ("/a\r\nb", {}), ("/", {"A": "b\r\nC: d"}), ("/", {"A": "ä"})]
)
async def test_invalid_request_is_not_sent(server: Http2Server, target: str, headers: dict[str, str]) -> None:
    with pytest.raises(ConnectionLost, match="invalid request"):
        server.open(target, HEADERS | headers)

    assert server.requests() == []


async def test_streams_receive_their_own_data(server: Http2Server) -> None:
    first, second = await server.opened(), await server.opened()
    waiting = asyncio.create_task(second.read())
    server.send_data(first.number, b"one")
    server.send_data(second.number, b"two")
    server.send_data(first.number, b", more")

    assert await waiting == b"two"
    assert await first.read() == b"one, more"


async def test_complete_response_has_an_empty_piece_at_its_end(server: Http2Server) -> None:
    stream = server.open()
    server.respond(stream.number, 410, b"gone")

    assert (await stream.head()).status == 410
    assert [await stream.read(), await stream.read()] == [b"gone", b""]
    stream.close()
    assert server.resets() == []


async def test_closed_stream_is_cancelled(server: Http2Server) -> None:
    stream, other = await server.opened(), await server.opened()
    server.send_data(stream.number, b"unread")
    await settle()

    stream.close()
    stream.close()
    server.send_data(other.number, b"data")

    assert server.resets() == [stream.number]
    assert await other.read() == b"data"


async def test_windows_grow_when_data_is_read(server: Http2Server) -> None:
    stream, other = await server.opened(), await server.opened()
    most = server.h2.local_flow_control_window(stream.number)
    for size in (16384, 16384, 16384, most - 3 * 16384):
        server.send_data(stream.number, bytes(size))
    await settle()

    unread = server.windows()
    server.send_data(other.number, b"not delayed")
    assert await other.read() == b"not delayed"
    assert len(await stream.read()) == most
    assert stream.number not in unread
    assert stream.number in server.windows()


@pytest.mark.parametrize("reset", [False, True])
async def test_unread_data_of_closed_streams_returns_to_the_window(server: Http2Server, reset: bool) -> None:
    for _ in range(400):
        stream = await server.opened()
        server.send_data(stream.number, bytes(16384))
        if reset:
            server.h2.reset_stream(stream.number)
            server.send()
        stream.close()
        server.receive()

    assert server.h2.outbound_flow_control_window > 1 << 20


@pytest.mark.parametrize("permitted", [3, 1000])
async def test_number_of_streams_is_limited(permitted: int) -> None:
    async with Http2Server(permitted) as server:
        streams = []
        while server.connection.is_available:
            streams.append(server.open())
        streams.pop().close()

        assert len(streams) + 1 == min(permitted, 100)
        assert server.connection.is_available


async def test_reset_stream_fails_after_its_data(server: Http2Server) -> None:
    stream = await server.opened()
    server.send_data(stream.number, b"data")
    server.h2.reset_stream(stream.number, ErrorCodes.REFUSED_STREAM)
    server.send()

    assert await stream.read() == b"data"
    with pytest.raises(ConnectionLost, match="the server reset the stream: REFUSED_STREAM"):
        await stream.read()
    stream.close()
    assert server.connection.is_available


@pytest.mark.parametrize(
    ("data", "problem"), [(b"", "server disconnected"), (b"\0\0\1\0\0\0\0\0\0x", "invalid response")]
)
async def test_streams_fail_with_their_connection(server: Http2Server, data: bytes, problem: str) -> None:
    started, waiting = await server.opened(), server.open()
    server.feed(data)
    server.end()

    with pytest.raises(ConnectionLost, match=problem):
        await waiting.head()
    with pytest.raises(ConnectionLost, match=problem):
        await started.read()
    assert server.aborted
    assert not server.connection.is_available
    for stream in (started, waiting):
        stream.close()


async def test_complete_response_survives_the_end_of_the_connection(server: Http2Server) -> None:
    stream = server.open()
    server.respond(stream.number, body=b"all")
    server.end()
    await settle()

    assert [await stream.read(), await stream.read()] == [b"all", b""]


async def test_error_of_the_socket_is_the_reason(server: Http2Server) -> None:
    stream = server.open()
    server.end(ConnectionResetError(104, "Connection reset by peer"))

    with pytest.raises(ConnectionLost, match="Connection reset by peer"):
        await stream.head()


async def test_streams_continue_after_the_announced_end(server: Http2Server) -> None:
    kept, rejected = await server.opened(), server.open()
    server.go_away(kept.number)

    with pytest.raises(ConnectionLost, match="the server closes the connection: NO_ERROR"):
        await rejected.head()
    assert not server.connection.is_available
    server.send_data(kept.number, b"data")
    assert await kept.read() == b"data"
    assert not server.aborted
    kept.close()
    assert server.aborted


async def test_connection_without_streams_ends_when_announced(server: Http2Server) -> None:
    server.go_away(0)
    await settle()

    assert server.aborted


async def test_quiet_connection_is_checked_with_a_ping(server: Http2Server) -> None:
    stream = await server.opened()
    for _ in range(3):
        server.send_data(stream.number, b"data")
        server.connection._check()
    active = server.pings()
    server.connection._check()
    quiet = server.pings()
    server.send()  # the response to the ping
    server.connection._check()
    server.send_data(stream.number, b"more")

    assert (active, quiet, server.pings()) == (0, 1, 1)
    assert await stream.read() == b"data" * 3 + b"more"


async def test_server_that_does_not_respond_to_a_ping_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http2_module, "_QUIET_SECONDS", 0)
    monkeypatch.setattr(http2_module, "_PING_SECONDS", 0)
    async with Http2Server() as server, asyncio.timeout(20):
        stream = server.open()
        with pytest.raises(ConnectionLost, match="no response to a ping"):
            await stream.head()
        with pytest.raises(ConnectionLost, match="was closed"):
            server.open()


async def test_unused_connection_is_closed(server: Http2Server) -> None:
    checks = 0
    while not server.aborted:
        server.connection._check()
        checks += 1
        server.receive()
        server.send()

    assert server.pings() == 1
    assert checks <= 8


async def test_connection_that_failed_before_its_use_is_closed() -> None:
    failed, closed = Http2Server(), Http2Server()
    failed.prepared.reader.set_exception(ConnectionResetError(104, "Connection reset by peer"))
    closed.prepared.transport.aborted = True

    for server in (failed, closed):
        async with server:
            assert server.connection.is_closed
