"""Tests for HTTP/2 connections: streams, flow control, limits and resets."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator
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

from apiserver_stub.transport import backpressure
from apiserver_stub.transport.http import BodyTooLong, HttpRequest
from apiserver_stub.transport.http2 import connection as module
from apiserver_stub.transport.http2.connection import Http2Connection
from apiserver_stub.transport.http2.negotiation import Terms
from apiserver_stub.transport.http2.stream import HIGH_WATER_BYTES

PLENTY = Terms(10)


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


_opened: list[Harness] = []


@pytest.fixture(autouse=True)
async def _closed_connections() -> AsyncIterator[None]:
    yield
    while _opened:
        harness = _opened.pop()
        if not harness.gone:
            harness.connection.connection_lost(None)
    await asyncio.sleep(0)


class Handled:
    """A request in progress until :meth:`finish`."""

    def __init__(self, http: HttpRequest) -> None:
        self.http = http
        self.cancelled = False
        self._finished = asyncio.Event()

    async def run(self) -> None:
        try:
            await self._finished.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    def finish(self) -> None:
        self._finished.set()

    async def ok(self, body: bytes = b"ok") -> None:
        await self.http.respond(200, [], [body])


class Harness:
    """Client and server connection without a network."""

    def __init__(self, terms: Terms = PLENTY, **settings: int) -> None:
        self.handled: list[Handled] = []
        self.protocol_errors: list[str] = []
        self.gone = 0
        self.line = Line()
        self.connection = Http2Connection(
            terms,
            "192.0.2.1",
            self._handle,
            self._count_gone,
            lambda it: self.protocol_errors.append(str(it)),
            idle_seconds=90,
        )
        self.client = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.client.local_settings.update({SettingCodes[name]: value for name, value in settings.items()})
        for _ in settings:
            self.client.local_settings.acknowledge()
        self.events: list[Event] = []
        _opened.append(self)
        self.connection.connection_made(self.line)
        self.client.initiate_connection()
        self.exchange()

    async def _handle(self, http: HttpRequest) -> None:
        self.handled.append(Handled(http))
        await self.handled[-1].run()

    def _count_gone(self) -> None:
        self.gone += 1

    async def settle(self) -> None:
        """Run handlers and exchange bytes until nothing is left to do."""
        for _ in range(5):
            await asyncio.sleep(0)
            self.exchange()

    def exchange(self) -> None:
        """Exchange bytes between both sides until none are left."""
        while (up := self.client.data_to_send()) or self.line.written:
            if up:
                self.connection.data_received(up)
            down = bytes(self.line.written)
            self.line.written.clear()
            if down:
                self.events += self.client.receive_data(down)

    async def send(self, method: str = "GET", path: str = "/", *fields: tuple[str, str], end: bool = True) -> int:
        number = int(self.client.get_next_available_stream_id())
        head = [(":method", method), (":scheme", "https"), (":authority", "api"), (":path", path), *fields]
        self.client.send_headers(number, head, end_stream=end)
        await self.settle()
        return number

    def seen(self, kind: type[Any], number: int | None = None) -> list[Any]:
        return [
            event for event in self.events if isinstance(event, kind) and (number is None or event.stream_id == number)
        ]

    def body(self, number: int) -> bytes:
        return b"".join(event.data for event in self.seen(DataReceived, number))


async def test_request_reaches_the_handler_and_the_response_the_client() -> None:
    harness = Harness()
    number = await harness.send("GET", "/version?a=b", ("accept", "*/*"))
    handled = harness.handled[0]
    http = handled.http
    assert (http.method, http.target, http.path, http.version) == ("GET", "/version?a=b", "/version", (2, 0))
    assert dict(http.headers) == {"Host": "api", "accept": "*/*"}
    assert (http.remote, str(http.tls), http.has_body) == ("192.0.2.1", "the ssl_object", False)

    await http.respond(200, [("Content-Type", "text/plain")], [b"o", b"k"])
    written = len(harness.line.written)
    handled.finish()
    await harness.settle()

    headers = dict(harness.seen(ResponseReceived, number)[0].headers)
    assert headers.pop("date").endswith(" GMT")
    assert headers == {":status": "200", "content-type": "text/plain", "content-length": "2"}
    assert harness.body(number) == b"ok"
    assert harness.seen(StreamEnded, number)
    assert written and harness.connection.idle and not handled.cancelled


async def test_short_response_is_a_single_write() -> None:
    harness = Harness()
    await harness.send()
    writes: list[bytes] = []
    harness.line.write = writes.append  # type: ignore[method-assign,assignment]

    await harness.handled[0].ok()

    assert len(writes) == 1


async def test_response_chunks_are_sent_when_written() -> None:
    harness = Harness()
    number = await harness.send()
    response = harness.handled[0].http.start(200, [])
    for count, piece in enumerate((b"one", b"two"), 1):
        await response.write(piece)
        await harness.settle()
        assert len(harness.seen(DataReceived, number)) == count
    response.end()
    harness.exchange()
    assert harness.body(number) == b"onetwo"
    assert harness.seen(StreamEnded, number)


async def test_small_chunks_of_several_streams_are_written_together() -> None:
    harness = Harness()
    numbers = [await harness.send() for _ in range(3)]
    responses = [handled.http.start(200, []) for handled in harness.handled]
    writes: list[bytes] = []
    harness.line.write = lambda data: writes.append(bytes(data))  # type: ignore[method-assign]

    for response in responses:
        await response.write(b"event")
    await asyncio.sleep(0)

    assert len(writes) == 1
    harness.line.written += writes[0]
    harness.exchange()
    assert [harness.body(number) for number in numbers] == [b"event"] * 3


async def test_large_chunks_are_written_immediately() -> None:
    harness = Harness()
    await harness.send()
    response = harness.handled[0].http.start(200, [])
    chunk = b"x" * (20 << 10)

    await response.write(chunk)

    assert len(harness.line.written) > len(chunk)


async def test_response_to_head_has_no_body() -> None:
    harness = Harness()
    number, other = await harness.send("HEAD"), await harness.send("HEAD")
    await harness.handled[0].http.respond(200, [], [b"some"])
    response = harness.handled[1].http.start(200, [("Content-Length", "4")])
    await response.write(b"some")
    response.end()
    harness.exchange()
    for stream in (number, other):
        assert harness.seen(StreamEnded, stream)
        assert harness.body(stream) == b""
        assert ("content-length", "4") in harness.seen(ResponseReceived, stream)[0].headers


@pytest.mark.parametrize("started", [False, True])
async def test_incomplete_response_resets_the_stream(started: bool) -> None:
    harness = Harness()
    number = await harness.send()
    handled = harness.handled[0]
    if started:
        response = handled.http.start(200, [("Content-Length", "5")])
        await response.write(b"abc")
        response.end()
    handled.finish()
    await harness.settle()
    assert harness.seen(StreamReset, number)[0].error_code == ErrorCodes.INTERNAL_ERROR
    assert harness.connection.idle


async def test_failed_handler_resets_the_stream_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()

    async def fail(http: HttpRequest) -> None:
        raise ValueError("a bug")

    harness.connection._handler = fail
    number = await harness.send("GET", "/broken")

    assert harness.seen(StreamReset, number)[0].error_code == ErrorCodes.INTERNAL_ERROR
    assert [record.message for record in caplog.records] == ["apiserver panic'd"]


async def test_body_is_read_after_an_informational_response() -> None:
    harness = Harness()
    number = await harness.send("POST", "/", ("expect", "100-continue"), end=False)
    handled = harness.handled[0]
    reading = asyncio.ensure_future(handled.http.read_body(100))
    await harness.settle()
    assert harness.seen(InformationalResponseReceived, number)
    harness.client.send_data(number, b"hello")
    harness.client.send_data(number, b"")
    await harness.settle()
    assert not reading.done()
    harness.client.send_data(number, b"!", end_stream=True)
    await harness.settle()
    assert await reading == b"hello!"
    assert not handled.http.has_body
    await handled.ok()
    harness.exchange()
    assert harness.body(number) == b"ok"


@pytest.mark.parametrize("declared", [True, False])
async def test_too_long_body_is_not_read(declared: bool) -> None:
    harness = Harness()
    fields = [("content-length", "11")] if declared else []
    number = await harness.send("POST", "/", *fields, end=False)
    handled = harness.handled[0]
    harness.client.send_data(number, b"hello hello", end_stream=declared)
    await harness.settle()

    with pytest.raises(BodyTooLong):
        await handled.http.read_body(10)
    await handled.ok()
    handled.finish()
    await harness.settle()

    assert harness.body(number) == b"ok"
    assert bool(harness.seen(StreamReset, number)) is not declared  # the rest of the request is not read
    assert harness.connection.idle


async def test_unread_body_is_limited_to_the_window() -> None:
    harness = Harness()
    number, other = await harness.send("POST", end=False), await harness.send("POST", end=False)
    sent = 0
    while window := min(harness.client.local_flow_control_window(number), 16384):
        harness.client.send_data(number, bytes(window))
        sent += window
        await harness.settle()
    assert sent == 65535
    harness.client.send_data(other, b"others go on", end_stream=True)
    await harness.settle()
    assert await harness.handled[1].http.read_body(100) == b"others go on"
    body = harness.handled[0].http.body()
    assert len(await anext(body)) == 16384 and len(await anext(body)) == 16384
    assert len(await anext(body)) == 16384
    harness.exchange()
    assert harness.client.local_flow_control_window(number) > 0


async def test_unread_response_pauses_its_handler() -> None:
    harness = Harness(INITIAL_WINDOW_SIZE=100)
    number, other = await harness.send(), await harness.send()
    handled = harness.handled[0]
    body = bytes(2 * HIGH_WATER_BYTES)
    responding = asyncio.ensure_future(handled.ok(body))
    await harness.settle()
    assert not responding.done()
    assert len(harness.body(number)) == 100
    await harness.handled[1].ok()
    harness.exchange()
    assert harness.body(other) == b"ok"
    harness.client.increment_flow_control_window(1 << 20)
    harness.client.increment_flow_control_window(1 << 20, number)
    await harness.settle()
    await responding
    handled.finish()
    await harness.settle()
    assert harness.body(number) == body
    assert harness.seen(StreamEnded, number)
    assert not harness.connection._blocked


async def test_client_that_does_not_read_is_not_read_from() -> None:
    harness = Harness()
    number = await harness.send()
    harness.connection.pause_writing()
    assert harness.line.reading_paused
    responding = asyncio.ensure_future(harness.handled[0].ok(bytes(200_000)))
    await asyncio.sleep(0)
    assert not responding.done()
    harness.connection.resume_writing()
    harness.exchange()
    assert not harness.line.reading_paused
    assert len(harness.body(number)) == 65535
    harness.connection.connection_lost(None)
    with pytest.raises(ConnectionResetError):
        await responding


async def test_client_that_never_reads_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALLED_SECONDS", 0)
    monkeypatch.setattr(backpressure, "STALLED_SECONDS", 0)
    harness = Harness(INITIAL_WINDOW_SIZE=1)
    number, other = await harness.send(), await harness.send()
    await harness.handled[0].ok()
    harness.handled[0].finish()
    with pytest.raises(ConnectionResetError):
        await harness.handled[1].ok(bytes(2 * HIGH_WATER_BYTES))
    harness.handled[1].finish()
    await asyncio.sleep(0.01)
    harness.exchange()
    for stream in (number, other):
        assert harness.seen(StreamReset, stream)[0].error_code == ErrorCodes.CANCEL
    assert harness.connection.idle
    harness.connection.pause_writing()
    await asyncio.sleep(0.01)
    assert harness.line.closing


async def test_response_that_may_stall_waits_for_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure, "STALLED_SECONDS", 0)
    harness = Harness(INITIAL_WINDOW_SIZE=1)
    number = await harness.send()
    response = harness.handled[0].http.start(200, [], may_stall=True)
    writing = asyncio.ensure_future(response.write(bytes(2 * HIGH_WATER_BYTES)))
    await asyncio.sleep(0.01)
    assert not writing.done() and not harness.seen(StreamReset, number)
    harness.client.increment_flow_control_window(1 << 20)
    harness.client.increment_flow_control_window(1 << 20, number)
    await harness.settle()
    await writing


async def test_streams_beyond_the_limit_are_rejected() -> None:
    harness = Harness(Terms(2))
    assert harness.client.remote_settings.max_concurrent_streams == 2
    harness.client.remote_settings._settings[SettingCodes.MAX_CONCURRENT_STREAMS][0] = (
        100  # as a client that has not received the settings
    )
    first, second, third = [await harness.send() for _ in range(3)]
    assert harness.seen(StreamReset, third)[0].error_code == ErrorCodes.REFUSED_STREAM
    assert not harness.seen(StreamReset, first) and not harness.seen(StreamReset, second)
    harness.client.reset_stream(first)
    await harness.settle()
    assert harness.handled[0].cancelled
    with pytest.raises(ConnectionResetError):
        await harness.handled[0].ok()
    fourth = await harness.send()
    assert not harness.seen(StreamReset, fourth)
    assert len(harness.handled) == 3


async def test_stream_counts_until_its_response_is_sent() -> None:
    harness = Harness(Terms(2))
    for number in range(4):
        assert not harness.seen(StreamReset, await harness.send())
        await harness.handled[number].ok()  # and keeps running briefly
        harness.exchange()
    assert harness.seen(StreamReset, await harness.send())[0].error_code == ErrorCodes.REFUSED_STREAM
    for handled in harness.handled:
        handled.finish()
    await harness.settle()
    assert not harness.seen(StreamReset, await harness.send())
    assert len(harness.handled) == 5


async def test_client_with_rapid_resets_is_disconnected() -> None:
    harness = Harness()
    for _ in range(10 * module._MOST_RESETS):
        if harness.line.closing:
            break
        harness.client.reset_stream(await harness.send())
        harness.exchange()
    assert harness.seen(ConnectionTerminated)[0].error_code == ErrorCodes.ENHANCE_YOUR_CALM
    assert harness.protocol_errors == ["too many streams were reset"]
    await harness.settle()
    assert all(handled.cancelled for handled in harness.handled)


async def test_goaway_is_sent_with_a_response_and_keeps_other_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FAREWELL_SECONDS", 0)
    monkeypatch.setattr(random, "random", [0.001, 0.5].pop)
    harness = Harness(Terms(10, goaway_chance=0.02))
    first, second = await harness.send(), await harness.send()
    await harness.handled[0].ok()
    harness.handled[0].finish()
    await harness.settle()
    assert not harness.seen(ConnectionTerminated)
    response = harness.handled[1].http.start(200, [("Content-Length", "4")])
    (reported,) = [
        event
        for event in harness.client.receive_data(bytes(harness.line.written))
        if isinstance(event, ConnectionTerminated)
    ]
    harness.line.written.clear()
    assert (reported.error_code, reported.last_stream_id) == (ErrorCodes.NO_ERROR, second)
    await response.write(b"last")
    await asyncio.sleep(0)
    assert b"last" in harness.line.written and not harness.line.closing
    response.end()
    harness.handled[1].finish()
    await asyncio.sleep(0.01)
    assert harness.line.closing
    assert first != second


async def test_handler_can_close_the_connection_after_its_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FAREWELL_SECONDS", 0)
    harness = Harness()
    await harness.send()
    harness.handled[0].http.close_after_response()
    await harness.handled[0].ok()
    harness.handled[0].finish()
    await asyncio.sleep(0.01)
    assert harness.line.closing


async def test_connect_is_rejected() -> None:
    harness = Harness()
    number = int(harness.client.get_next_available_stream_id())
    harness.client.send_headers(number, [(":method", "CONNECT"), (":authority", "api:1")])
    await harness.settle()
    assert (":status", "405") in harness.seen(ResponseReceived, number)[0].headers
    assert harness.connection.idle and not harness.handled


async def test_idle_connection_gets_goaway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FAREWELL_SECONDS", 0)
    harness = Harness()
    harness.connection.unused_since = -1000
    harness.connection._close_if_idle()
    harness.exchange()
    assert harness.seen(ConnectionTerminated)
    await asyncio.sleep(0.01)
    assert harness.line.closing
    harness.connection.connection_lost(None)
    assert harness.gone == 1


async def test_closed_connection_cancels_its_handlers() -> None:
    harness = Harness()
    await harness.send()
    harness.connection.connection_lost(None)
    await harness.settle()
    assert harness.handled[0].cancelled and not harness.connection.tasks
    with pytest.raises(ConnectionResetError):
        await harness.handled[0].ok()
    assert harness.gone == 1


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


async def test_client_may_end_any_number_of_watches_by_resets() -> None:
    harness = Harness()
    for number in range(2 * module._MOST_RESETS):
        stream = await harness.send()
        harness.handled[number].http.start(200, [])
        harness.client.reset_stream(stream)
        harness.exchange()
        await harness.settle()

    assert not harness.line.closing
    assert all(handled.cancelled for handled in harness.handled)
