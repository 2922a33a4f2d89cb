"""Tests for the simulated HTTP client: complete, lost and malformed responses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import Context
from typing import Any

import httptools
import pytest

from apiserver_stub.simulation.client import Client, Lost, Response
from apiserver_stub.simulation.network import Network, ServerLoop
from nodeagent.base.simulation.loop import PROCESS


class Server(asyncio.Protocol):
    """Server that records requests, and returns the same pieces to each."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.received = b""
        self.closes = False
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        for piece in self.pieces:
            self.transport.write(piece)
        if self.closes:
            self.transport.close()


class Harness:
    def __init__(self, loop: ServerLoop) -> None:
        self.loop, self.network, self.server = loop, Network(1, loop), Server()
        self.client = Client(self.network, "secret")
        (listening,) = self.network.listen("", 6443)

        async def accept() -> None:
            while True:
                accepted, _ = await loop.sock_accept(listening)
                await loop.connect_accepted_socket(lambda: self.server, accepted)

        context = Context()
        context.run(PROCESS.set, 7)
        self.accepting = loop.create_task(accept(), context=context)

    def request(self, *arguments: Any) -> Response:
        return self.loop.run_until_complete(self.client.request(*arguments))


@pytest.fixture
def harness() -> Iterator[Harness]:
    loop = ServerLoop(1)
    asyncio.set_event_loop(loop)
    found = Harness(loop)
    yield found
    found.accepting.cancel()
    loop.run_until_complete(asyncio.gather(found.accepting, return_exceptions=True))
    asyncio.set_event_loop(None)
    loop.close()


def reply(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nX-A: b\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


@pytest.mark.parametrize(
    ("body", "content", "version"),
    [
        (b'{"metadata":{"resourceVersion":"7"}}', {"metadata": {"resourceVersion": "7"}}, 7),
        (b'{"metadata":{}}', {"metadata": {}}, 0),
        (b'{"metadata":{"resourceVersion":""}}', {"metadata": {"resourceVersion": ""}}, 0),
        (b"{}", {}, 0),
        (b"[7]", [7], 0),
        (b"text", {}, 0),
    ],
)
def test_response_has_content_and_version(harness: Harness, body: bytes, content: Any, version: int) -> None:
    data = reply(201, body)
    harness.server.pieces = [data[:20], data[20:50], data[50:]]

    found = harness.request("GET", "/path")

    assert (found.code, found.headers["x-a"], found.content, found.version) == (201, "b", content, version)


@pytest.mark.parametrize("body", [None, {}, {"a": 1}])
def test_request_has_the_token_and_the_type_of_its_body(harness: Harness, body: Any) -> None:
    harness.server.pieces = [reply(200, b"{}")]

    harness.request("PATCH", "/path?a=b", body, "application/x")

    head, _, content = harness.server.received.partition(b"\r\n\r\n")
    assert head.startswith(b"PATCH /path?a=b HTTP/1.1\r\n") and b"Authorization: Bearer secret" in head
    assert (b"Content-Type: application/x" in head) is (body is not None)
    assert content == {"None": b"", "{}": b"{}", "{'a': 1}": b'{"a":1}'}[str(body)]


def test_closed_connection_loses_the_request(harness: Harness) -> None:
    harness.server.pieces, harness.server.closes = [reply(200, b"{}")[:-1]], True

    with pytest.raises(Lost, match="connection closed"):
        harness.request("GET", "/path")
    assert harness.loop.time() < 60


def test_request_without_a_response_is_lost_after_some_time(harness: Harness) -> None:
    with pytest.raises(Lost, match="timeout"):
        harness.request("GET", "/path")

    assert 75 <= harness.loop.time() < 80


def test_malformed_response_is_an_error_of_the_simulation(harness: Harness) -> None:
    harness.server.pieces = [b"malformed\r\n\r\n", b"more\r\n\r\n"]

    with pytest.raises(httptools.HttpParserError):
        harness.request("GET", "/path")


@pytest.mark.parametrize("status", [200, 410])
def test_only_successful_streams_pass_their_body(harness: Harness, status: int) -> None:
    received: list[bytes] = []
    harness.server.pieces = [reply(status, b"event")]

    async def watch() -> Any:
        exchange = harness.client.stream("/path", received.append)
        await exchange.done
        exchange.close()
        return exchange

    exchange = harness.loop.run_until_complete(watch())

    assert (exchange.code, received, exchange.pieces) == (
        (200, [b"event"], []) if status == 200 else (410, [], [b"event"])
    )


def test_closed_stream_is_cancelled_and_receives_nothing(harness: Harness) -> None:
    received: list[bytes] = []
    harness.server.pieces = [reply(200, b"event")]

    async def watch() -> Any:
        exchange = harness.client.stream("/path", received.append)
        await asyncio.sleep(0)
        exchange.close()
        await asyncio.sleep(30)
        return exchange

    exchange = harness.loop.run_until_complete(watch())

    assert exchange.done.cancelled() and received == []
