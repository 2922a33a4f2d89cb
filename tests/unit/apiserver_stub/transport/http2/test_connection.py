"""Tests for HTTP/2 connections: streams, flow control, limits and resets."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes

from apiserver_stub.transport.http2 import connection as module
from apiserver_stub.transport.http2.connection import Http2Connection
from apiserver_stub.transport.http2.negotiation import Terms
from apiserver_stub.transport.http2.stream import HIGH_WATER_BYTES

PLENTY = Terms(10)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Line(asyncio.Transport):
    """Transport that records written bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closing = self.reading_paused = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return f"the {name}"


class Handler(asyncio.Protocol):
    """Request handler that records requests."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost: list[BaseException | None] = []
        self.writing_paused = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.append(exc)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def pause_writing(self) -> None:
        self.writing_paused = True

    def resume_writing(self) -> None:
        self.writing_paused = False


class Harness:
    """Client and server connection without a network."""

    def __init__(self, terms: Terms = PLENTY, **settings: int) -> None:
        self.handlers: list[Handler] = []
        self.protocol_errors: list[str] = []
        self.gone = 0
        self.line = Line()
        self.connection = Http2Connection(
            terms,
            "192.0.2.1",
            self._serve,
            self._count_gone,
            lambda it: self.protocol_errors.append(str(it)),
            idle_seconds=90,
        )
        self.client = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.client.local_settings.update({SettingCodes[name]: value for name, value in settings.items()})
        for _ in settings:
            self.client.local_settings.acknowledge()
        self.events: list[Event] = []
        self.connection.connection_made(self.line)
        self.client.initiate_connection()
        self.exchange()

    def _serve(self) -> Handler:
        self.handlers.append(Handler())
        return self.handlers[-1]

    def _count_gone(self) -> None:
        self.gone += 1

    def exchange(self) -> None:
        """Exchange bytes between both sides until none are left."""
        while (up := self.client.data_to_send()) or self.line.written:
            if up:
                self.connection.data_received(up)
            down = bytes(self.line.written)
            self.line.written.clear()
            if down:
                self.events += self.client.receive_data(down)

    def send(self, method: str = "GET", path: str = "/", *fields: tuple[str, str], end: bool = True) -> int:
        number = int(self.client.get_next_available_stream_id())
        head = [(":method", method), (":scheme", "https"), (":authority", "api"), (":path", path), *fields]
        self.client.send_headers(number, head, end_stream=end)
        self.exchange()
        return number

    def seen(self, kind: type[Any], number: int | None = None) -> list[Any]:
        return [
            event for event in self.events if isinstance(event, kind) and (number is None or event.stream_id == number)
        ]

    def body(self, number: int) -> bytes:
        return b"".join(event.data for event in self.seen(DataReceived, number))


async def test_request_reaches_the_handler_and_the_response_the_client() -> None:
    harness = Harness()
    number = harness.send("GET", "/version", ("accept", "*/*"))
    handler = harness.handlers[0]
    assert bytes(handler.received) == b"GET /version HTTP/1.1\r\nhost: api\r\naccept: */*\r\n\r\n"

    handler.transport.write(OK)
    handler.transport.close()
    await asyncio.sleep(0)
    harness.exchange()

    assert (":status", "200") in harness.seen(ResponseReceived, number)[0].headers
    assert harness.body(number) == b"ok"
    assert harness.seen(StreamEnded, number)
    assert handler.lost == [None]
    assert harness.connection.idle


async def test_response_chunks_are_sent_when_written() -> None:
    harness = Harness()
    number = harness.send()
    transport = harness.handlers[0].transport
    transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for count, piece in enumerate((b"one", b"two"), 1):
        transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        harness.exchange()
        assert len(harness.seen(DataReceived, number)) == count
    transport.write(b"0\r\n\r\n")
    harness.exchange()
    assert harness.body(number) == b"onetwo"
    assert harness.seen(StreamEnded, number)


async def test_response_to_head_has_no_body() -> None:
    harness = Harness()
    number = harness.send("HEAD")
    harness.handlers[0].transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\nsome")
    harness.exchange()
    assert harness.seen(StreamEnded, number)
    assert harness.body(number) == b""
    assert ("content-length", "200") in harness.seen(ResponseReceived, number)[0].headers


async def test_response_without_length_ends_with_its_connection() -> None:
    harness = Harness()
    number = harness.send()
    transport = harness.handlers[0].transport
    transport.write(b"HTTP/1.1 200 OK\r\n\r\nsome")
    harness.exchange()
    assert not harness.seen(StreamEnded, number)
    transport.close()
    harness.exchange()
    assert harness.body(number) == b"some"
    assert harness.seen(StreamEnded, number)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"])
async def test_incomplete_response_resets_the_stream(begun: bytes) -> None:
    harness = Harness()
    number = harness.send()
    harness.handlers[0].transport.writelines([begun])
    harness.handlers[0].transport.close()
    harness.exchange()
    assert harness.seen(StreamReset, number)[0].error_code == ErrorCodes.INTERNAL_ERROR
    assert harness.connection.idle


async def test_body_is_chunked_and_informational_response_is_sent() -> None:
    harness = Harness()
    number = harness.send("POST", end=False)
    handler = harness.handlers[0]
    handler.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    harness.exchange()
    assert harness.seen(InformationalResponseReceived, number)
    handler.received.clear()
    harness.client.send_data(number, b"hello")
    harness.client.send_data(number, b"")
    harness.exchange()
    assert bytes(handler.received) == b"5\r\nhello\r\n"
    harness.client.send_data(number, b"!", end_stream=True)
    harness.exchange()
    assert bytes(handler.received) == b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
    handler.transport.write(OK)
    harness.exchange()
    assert harness.body(number) == b"ok"


async def test_unread_body_is_limited_to_the_window() -> None:
    harness = Harness()
    number, other = harness.send("POST", end=False), harness.send("POST", end=False)
    handler = harness.handlers[0]
    handler.transport.pause_reading()
    head = len(handler.received)
    sent = 0
    while window := min(harness.client.local_flow_control_window(number), 16384):
        harness.client.send_data(number, bytes(window))
        sent += window
        harness.exchange()
    assert sent == 65535 and len(handler.received) == head
    harness.client.send_data(other, b"others go on", end_stream=True)
    harness.exchange()
    assert b"others go on" in harness.handlers[1].received
    handler.transport.resume_reading()
    harness.exchange()
    assert len(handler.received) > head + sent
    assert harness.client.local_flow_control_window(number) > 0


async def test_unread_response_pauses_its_handler() -> None:
    harness = Harness(INITIAL_WINDOW_SIZE=100)
    number, other = harness.send(), harness.send()
    handler = harness.handlers[0]
    body = bytes(2 * HIGH_WATER_BYTES)
    handler.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    harness.exchange()
    assert handler.writing_paused
    assert (len(harness.body(number)), handler.transport.get_write_buffer_size()) == (100, len(body) - 100)
    harness.handlers[1].transport.write(OK)
    harness.exchange()
    assert harness.body(other) == b"ok"
    handler.transport.close()
    harness.client.increment_flow_control_window(1 << 20)
    harness.client.increment_flow_control_window(1 << 20, number)
    harness.exchange()
    assert harness.body(number) == body
    assert harness.seen(StreamEnded, number)
    assert not handler.writing_paused
    assert not harness.connection._blocked


async def test_client_that_does_not_read_is_not_read_from() -> None:
    harness = Harness()
    number = harness.send()
    harness.connection.pause_writing()
    assert harness.line.reading_paused
    harness.handlers[0].transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + bytes(200_000))
    assert harness.handlers[0].writing_paused
    harness.connection.resume_writing()
    harness.exchange()
    assert not harness.line.reading_paused
    assert len(harness.body(number)) == 65535
    harness.connection.connection_lost(None)


async def test_client_that_never_reads_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STALLED_SECONDS", 0)
    harness = Harness(INITIAL_WINDOW_SIZE=1)
    number = harness.send()
    harness.handlers[0].transport.write(OK)
    harness.handlers[0].transport.close()
    await asyncio.sleep(0.01)
    harness.exchange()
    assert harness.seen(StreamReset, number)[0].error_code == ErrorCodes.CANCEL
    assert harness.connection.idle
    harness.connection.pause_writing()
    await asyncio.sleep(0.01)
    assert harness.line.closing


async def test_streams_beyond_the_limit_are_rejected() -> None:
    harness = Harness(Terms(2))
    assert harness.client.remote_settings.max_concurrent_streams == 2
    harness.client.remote_settings._settings[SettingCodes.MAX_CONCURRENT_STREAMS][0] = (
        100  # as a client that has not received the settings
    )
    first, second, third = harness.send(), harness.send(), harness.send()
    assert harness.seen(StreamReset, third)[0].error_code == ErrorCodes.REFUSED_STREAM
    assert not harness.seen(StreamReset, first) and not harness.seen(StreamReset, second)
    harness.client.reset_stream(first)
    harness.exchange()
    assert len(harness.handlers[0].lost) == 1
    fourth = harness.send()
    assert not harness.seen(StreamReset, fourth)
    assert len(harness.handlers) == 3


async def test_stream_counts_until_its_response_is_sent() -> None:
    harness = Harness(Terms(2))
    for handlers in range(4):
        number = harness.send()
        assert not harness.seen(StreamReset, number)
        harness.handlers[handlers].transport.write(OK)  # and keeps running briefly
        harness.exchange()
    assert harness.seen(StreamReset, harness.send())[0].error_code == ErrorCodes.REFUSED_STREAM
    for handler in harness.handlers:
        handler.transport.close()
    assert not harness.seen(StreamReset, harness.send())
    assert len(harness.handlers) == 5


async def test_client_with_rapid_resets_is_disconnected() -> None:
    harness = Harness()
    for _ in range(10 * module._MOST_RESETS):
        if harness.line.closing:
            break
        harness.client.reset_stream(harness.send())
        harness.exchange()
    assert harness.seen(ConnectionTerminated)[0].error_code == ErrorCodes.ENHANCE_YOUR_CALM
    assert harness.protocol_errors == ["too many streams were reset"]
    assert all(handler.lost for handler in harness.handlers)


async def test_goaway_is_sent_with_a_response_and_keeps_other_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FAREWELL_SECONDS", 0)
    monkeypatch.setattr(module.random, "random", [0.001, 0.5].pop)
    harness = Harness(Terms(10, goaway_chance=0.02))
    first, second = harness.send(), harness.send()
    harness.handlers[0].transport.write(OK)
    harness.handlers[0].transport.close()
    harness.exchange()
    assert not harness.seen(ConnectionTerminated)
    harness.handlers[1].transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
    (reported,) = [
        event
        for event in harness.client.receive_data(bytes(harness.line.written))
        if isinstance(event, ConnectionTerminated)
    ]
    harness.line.written.clear()
    assert (reported.error_code, reported.last_stream_id) == (ErrorCodes.NO_ERROR, second)
    harness.handlers[1].transport.write(b"last")
    assert b"last" in harness.line.written and not harness.line.closing
    harness.handlers[1].transport.close()
    await asyncio.sleep(0.01)
    assert harness.line.closing
    assert first != second


async def test_connect_is_rejected() -> None:
    harness = Harness()
    number = int(harness.client.get_next_available_stream_id())
    harness.client.send_headers(number, [(":method", "CONNECT"), (":authority", "api:1")])
    harness.exchange()
    assert (":status", "405") in harness.seen(ResponseReceived, number)[0].headers
    assert harness.connection.idle and not harness.handlers


async def test_idle_connection_gets_goaway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FAREWELL_SECONDS", 0)
    harness = Harness()
    harness.connection.unused_since = 0
    harness.connection._close_if_idle()
    harness.exchange()
    assert harness.seen(ConnectionTerminated)
    await asyncio.sleep(0.01)
    assert harness.line.closing
    harness.connection.connection_lost(None)
    assert harness.gone == 1


async def test_closed_connection_closes_its_streams() -> None:
    harness = Harness()
    harness.send()
    harness.connection.connection_lost(None)
    assert isinstance(harness.handlers[0].lost[0], ConnectionError)
    harness.handlers[0].transport.write(OK)
    harness.handlers[0].transport.close()
    assert harness.gone == 1


async def test_stream_exposes_the_peer_but_not_the_socket() -> None:
    harness = Harness()
    harness.send()
    transport = harness.handlers[0].transport
    assert transport.get_extra_info("peercert") == "the peercert"
    assert transport.get_extra_info("socket") is None


@pytest.mark.parametrize("seed", range(30))
async def test_garbage_closes_the_connection_or_is_ignored(seed: int) -> None:
    chance = random.Random(seed)
    harness = Harness(Terms(5))
    for _ in range(40):
        kind, flags, number = (
            chance.choice([*range(11), 77]),
            chance.choice([0, 1, 4, 5, 8, 9, 32]),
            chance.choice([0, 1, 3, 5, 2**31]),
        )
        payload = chance.randbytes(chance.choice([0, 4, 5, 8, 20]))
        if harness.line.closing:
            break
        harness.connection.data_received(
            len(payload).to_bytes(3, "big") + bytes([kind, flags]) + number.to_bytes(4, "big") + payload
        )
    assert harness.line.closing or not harness.protocol_errors
    harness.connection.connection_lost(None)
    assert harness.gone == 1


async def test_flipped_bits_close_the_connection_or_the_stream() -> None:
    kinds: dict[str, int] = defaultdict(int)
    for seed in range(200):
        chance = random.Random(seed)
        harness = Harness()
        harness.client.send_headers(1, [(":method", "GET"), (":scheme", "https"), (":path", "/a"), (":authority", "b")])
        harness.client.send_data(1, b"some", end_stream=True)
        data = bytearray(harness.client.data_to_send())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        harness.connection.data_received(bytes(data))
        kinds["closed" if harness.line.closing else "open"] += 1
        harness.connection.connection_lost(None)
    assert kinds["closed"] and kinds["open"]
