"""Tests for the simulated connections of the server to services."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import Context
from typing import Any

import pytest

from apiserver_stub.simulation.network import Network, ServerLoop
from apiserver_stub.simulation.services import Call, Reply, ServiceDialer, http_response
from nodeagent.base.simulation.loop import PROCESS

REQUEST = b"POST /path?timeout=1s HTTP/1.1\r\nHost: simulated\r\nContent-Length: 4\r\n\r\nbody"


class Client(asyncio.Protocol):
    """Protocol that records what it receives."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received, self.events, self.process = b"", list[str](), 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received, self.process = self.received + data, PROCESS.get()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.events.append(f"lost {type(exc).__name__}")


class Service:
    def __init__(self) -> None:
        self.accepted: bool | None = True
        self.calls, self.replies = list[Call](), list[Reply]()

    def accepts(self) -> bool | None:
        return self.accepted

    def respond(self, call: Call) -> Reply:
        self.calls.append(call)
        return self.replies.pop(0)


class Harness:
    def __init__(self, loop: ServerLoop) -> None:
        self.loop, self.network, self.service = loop, Network(1, loop), Service()
        self.dialer = ServiceDialer(self.network, lambda host, port: self.service if host == "service" else None)

    def connect(self, host: str = "service") -> Any:
        context = Context()
        context.run(PROCESS.set, 7)
        return self.loop.create_task(self.dialer.connect(Client, host, 443), context=context)

    def run(self, seconds: float = 30.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def harness() -> Iterator[Harness]:
    loop = ServerLoop(1)
    asyncio.set_event_loop(loop)
    yield Harness(loop)
    asyncio.set_event_loop(None)
    loop.close()


def test_reply_arrives_in_the_process_of_the_server(harness: Harness) -> None:
    delivered: list[bool] = []
    harness.service.replies = [
        Reply(b"first", delivered=lambda: delivered.append(True)),
        Reply(b" second", closes=True),
    ]
    connecting = harness.connect()
    harness.run()
    client = connecting.result()
    client.transport.write(REQUEST[:20])
    client.transport.writelines([REQUEST[20:]])
    harness.run()
    assert (client.received, client.process, delivered, client.events) == (b"first", 7, [True], [])

    client.transport.write(REQUEST)
    harness.run()
    assert (client.received, client.events) == (b"first second", ["lost NoneType"])
    assert [(call.path, call.query, call.body) for call in harness.service.calls] == [
        ("/path", "timeout=1s", b"body")
    ] * 2
    assert harness.service.calls[0].started_at == 0.0
    assert harness.service.calls[1].started_at > 30.0, "the connection was reused"


def test_reply_to_a_closed_connection_is_not_delivered(harness: Harness) -> None:
    delivered: list[bool] = []
    harness.service.replies = [Reply(b"late", 10.0, delivered=lambda: delivered.append(True))]
    connecting = harness.connect()
    harness.run()
    client = connecting.result()
    client.transport.write(REQUEST)
    harness.run(5.0)
    client.transport.close()
    harness.run()

    assert (client.received, delivered, client.transport.is_closing()) == (b"", [], True)


@pytest.mark.parametrize(
    ("host", "accepted", "error"),
    [
        ("service", False, ConnectionRefusedError),
        ("other", True, ConnectionRefusedError),
        ("service", None, TimeoutError),
    ],
)
def test_connection_that_is_not_accepted_fails(harness: Harness, host: str, accepted: Any, error: type) -> None:
    harness.service.accepted = accepted
    connecting = harness.connect(host)
    harness.run(1.0)
    assert connecting.done() is (accepted is not None)

    harness.run(300.0)
    assert isinstance(connecting.exception(), error)


def test_lost_segment_closes_the_connection(harness: Harness) -> None:
    connecting = harness.connect()
    harness.run()
    client, harness.network.loss = connecting.result(), 1.0
    client.transport.write(REQUEST)
    harness.run()

    assert (client.events, harness.service.calls) == (["lost ConnectionResetError"], [])


@pytest.mark.parametrize(
    ("content", "status", "body"), [({"a": 1}, 200, b'{"a":1}'), (b"text", 503, b"text"), (b"", 302, b"")]
)
def test_response_is_json_or_bytes(content: Any, status: int, body: bytes) -> None:
    head, _, found = http_response(content, status).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert (b"Location: " in head) is (status == 302)
    assert (found, b"Content-Length: %d" % len(body) in head) == (body, True)


@pytest.mark.parametrize("closes", [True, False])
def test_service_may_close_without_a_response(harness: Harness, closes: bool) -> None:
    harness.service.replies = [Reply(closes=closes)]
    connecting = harness.connect()
    harness.run()
    client = connecting.result()
    client.transport.write(REQUEST)
    harness.run()

    assert client.events == (["lost NoneType"] if closes else [])
    assert client.transport.is_closing() is closes


@pytest.mark.parametrize("loss", [1e-9, 1.0])
def test_lost_response_closes_the_connection(harness: Harness, loss: float) -> None:
    harness.service.replies = [Reply(b"late", 10.0)]
    connecting = harness.connect()
    harness.run()
    client = connecting.result()
    client.transport.write(REQUEST)
    harness.run(5.0)
    harness.network.loss = loss
    harness.run()

    expected = (b"", ["lost ConnectionResetError"]) if loss == 1.0 else (b"late", [])
    assert (client.received, client.events) == expected


def test_closed_connection_sends_nothing(harness: Harness) -> None:
    connecting = harness.connect()
    harness.run()
    client = connecting.result()
    client.transport.write(REQUEST)
    client.transport.close()
    client.transport.abort()
    client.transport.write(REQUEST)
    harness.run()

    assert (harness.service.calls, client.events) == ([], ["lost NoneType"])


def test_transport_of_a_service_has_the_address(harness: Harness) -> None:
    connecting = harness.connect()
    harness.run()
    transport = connecting.result().transport

    assert transport.get_extra_info("peername") == ("192.0.2.80", 443)
    assert transport.get_extra_info("ssl_object", 7) == 7
