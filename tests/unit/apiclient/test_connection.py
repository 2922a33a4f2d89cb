"""Tests for requests on one connection and the bodies of their responses."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from nodeagent.apiclient import body as body_module
from nodeagent.apiclient.body import Body
from nodeagent.apiclient.transport import ConnectionLost, Response
from tests.unit.apiclient.streams import PreparedServer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_request_is_encoded_with_the_length_of_its_body() -> None:
    server = PreparedServer(OK)

    response = await server.connection.send("PATCH", "/a?b=c", {"Host": "h", "X": "y z"}, b"{}")

    assert (response.status, response.headers) == (200, {"content-length": "2"})
    assert server.request == "PATCH /a?b=c HTTP/1.1\r\nHost: h\r\nX: y z\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(("method", "length"), [("POST", True), ("GET", False), ("DELETE", False)])
async def test_only_methods_with_a_body_have_a_length_without_one(method: str, length: bool) -> None:
    server = PreparedServer(OK)

    await server.connection.send(method, "/", {})

    assert ("Content-Length: 0" in server.request) == length


@pytest.mark.parametrize(
    ("target", "headers"),
    [("/a b", {}), ("/a\r\nB: c", {}), ("/ä", {}), ("/", {"A": "b\r\nC: d"}), ("/", {"A": "\x00"}), ("/", {"A": "ä"})],
)
async def test_invalid_request_is_not_sent(target: str, headers: dict[str, str]) -> None:
    server = PreparedServer(OK)

    with pytest.raises(ConnectionLost, match="invalid request"):
        await server.connection.send("GET", target, headers)

    assert server.request == ""


async def test_connection_is_new_until_its_second_request() -> None:
    server = PreparedServer(OK)
    await server.connection.send("GET", "/", {})
    first = server.connection.is_new
    server.reader.feed_data(OK)

    await server.connection.send("GET", "/", {})

    assert (first, server.connection.is_new) == (True, False)


async def test_connection_is_reusable_until_the_server_closes_it() -> None:
    server = PreparedServer(OK)
    await server.connection.send("GET", "/", {})
    assert await server.connection.read() == b"ok"
    open_one = server.connection.reusable

    server.reader.feed_eof()

    assert (open_one, server.connection.reusable) == (True, False)


async def test_body_is_read_in_pieces_until_its_end() -> None:
    server = PreparedServer(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    await server.connection.send("GET", "/", {})
    first = await server.connection.read()
    server.reader.feed_data(b"cd")

    assert [first, await server.connection.read(), await server.connection.read()] == [b"ab", b"cd", b""]


async def complete(content: bytes, encoding: str = "") -> bytes:
    server = PreparedServer(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content))
    head = await server.connection.send("GET", "/", {})
    return (await Body(server.connection, encoding).complete(head)).body


@pytest.mark.parametrize(
    ("content", "encoding"), [(b"text", ""), (b"text", "identity"), (gzip.compress(b"text", mtime=0), "gzip")]
)
async def test_body_is_decoded(content: bytes, encoding: str) -> None:
    assert await complete(content, encoding) == b"text"


@pytest.mark.parametrize(("content", "encoding"), [(b"text", "br"), (b"text", "gzip")])
async def test_body_in_another_encoding_is_a_lost_connection(content: bytes, encoding: str) -> None:
    with pytest.raises(ConnectionLost, match="invalid response"):
        await complete(content, encoding)


async def test_size_of_a_body_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "MAX_BODY_BYTES", 10)

    assert len(await complete(b"x" * 10)) == 10
    with pytest.raises(ConnectionLost, match="over 10 bytes"):
        await complete(b"x" * 11)


async def test_iteration_waits_for_the_next_piece_only_for_a_limited_time() -> None:
    server = PreparedServer(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
    head: Response = await server.connection.send("GET", "/", {})
    body = Body(server.connection, head.headers.get("content-encoding", ""))
    body.idle_seconds = 0

    assert await anext(body) == b"ab"
    with pytest.raises(TimeoutError):
        await anext(body)


async def test_aborted_connection_is_closed() -> None:
    server = PreparedServer()

    server.connection.abort()
    await asyncio.sleep(0)

    assert server.transport.aborted
