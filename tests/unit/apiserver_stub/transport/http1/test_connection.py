"""Tests for HTTP/1.1 connections: framing of responses, bodies, idle connections and upgrades."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver_stub.transport import backpressure
from apiserver_stub.transport.connection_log import ThrottledConnectionLog
from apiserver_stub.transport.http import BodyTooLong, HttpRequest, MalformedBody
from apiserver_stub.transport.http1.connection import Connection, create_server

Handle = Callable[[HttpRequest], Awaitable[None]]
GET = b"GET /a?b=c HTTP/1.1\r\nHost: api\r\n\r\n"


class Client:
    """Connection of a client to a handler."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, served: list[Connection]) -> None:
        self.reader, self.writer, self.served = reader, writer, served

    async def head(self) -> tuple[str, dict[str, str]]:
        """Return the status line and the headers of the next response, without the date."""
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        line, *fields = text.rstrip().split("\r\n")
        headers = dict(field.split(": ", 1) for field in fields)
        if " 100 " not in line:
            assert headers.pop("Date").endswith(" GMT")
        return line, headers

    async def rest(self) -> bytes:
        """Return the data until the connection closes."""
        with contextlib.suppress(ConnectionResetError):
            return await self.reader.read()
        return b""


@asynccontextmanager
async def serving(handle: Handle, idle_seconds: float = 90) -> AsyncIterator[Client]:
    server, served = create_server(handle), []

    def connect() -> Connection:
        log = ThrottledConnectionLog()
        served.append(Connection(server, "192.0.2.1", lambda: None, log, idle_seconds=idle_seconds))
        return served[-1]

    listening = await asyncio.get_running_loop().create_server(connect, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
    async with asyncio.timeout(10):
        try:
            yield Client(reader, writer, served)
        finally:
            writer.transport.abort()
            listening.close()
            await server.shutdown(1)


async def ok(http: HttpRequest) -> None:
    await http.respond(200, [("X-Method", http.method)], [b"o", b"k"])


async def test_complete_response_has_a_length_and_keeps_the_connection() -> None:
    async with serving(ok) as client:
        client.writer.write(GET + GET.replace(b"GET", b"HEAD") + GET)
        for method in ("GET", "HEAD", "GET"):
            line, headers = await client.head()
            assert (line, headers) == ("HTTP/1.1 200 OK", {"X-Method": method, "Content-Length": "2"})
            if method == "GET":
                assert await client.reader.readexactly(2) == b"ok"


async def test_handler_closes_the_connection_after_the_response() -> None:
    async def handle(http: HttpRequest) -> None:
        http.close_after_response()
        await http.respond(204, [], [])

    async with serving(handle) as client:
        client.writer.write(GET + GET)
        assert await client.head() == ("HTTP/1.1 204 No Content", {"Connection": "close"})
        assert await client.rest() == b""


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_stream_is_chunked_or_ends_with_the_connection(version: bytes) -> None:
    async def handle(http: HttpRequest) -> None:
        response = http.start(200, [])
        for piece in (b"one", b"", b"two"):
            await response.write(piece)
        response.end()

    async with serving(handle) as client:
        client.writer.write(GET.replace(b"1.1", version))
        _, headers = await client.head()
        if version == b"1.0":
            assert headers == {"Connection": "close"}
            assert await client.rest() == b"onetwo"
        else:
            assert headers == {"Transfer-Encoding": "chunked"}
            assert await client.reader.readuntil(b"0\r\n\r\n") == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


@pytest.mark.parametrize(("method", "status"), [(b"HEAD", 200), (b"GET", 304)])
async def test_stream_without_body_ends_with_its_headers(method: bytes, status: int) -> None:
    async def handle(http: HttpRequest) -> None:
        response = http.start(status, [("Content-Length", "7")])
        await response.write(b"ignored")
        response.end()

    async with serving(handle) as client:
        client.writer.write(2 * GET.replace(b"GET", method))
        for _ in range(2):
            assert (await client.head())[1] == {"Content-Length": "7"}


async def raise_error(http: HttpRequest) -> None:
    raise ValueError("a bug")


async def start_and_raise(http: HttpRequest) -> None:
    await http.start(200, []).write(b"some")
    raise ValueError("a bug")


async def leave_incomplete(http: HttpRequest) -> None:
    response = http.start(200, [("Content-Length", "9")])
    await response.write(b"some")
    response.end()


@pytest.mark.parametrize(
    ("handle", "text", "logged"),
    [
        (raise_error, b"Internal Server Error", True),
        (start_and_raise, b"4\r\nsome\r\n", True),
        (leave_incomplete, b"some", False),
    ],
)
async def test_failed_handler_closes_the_connection(
    handle: Handle, text: bytes, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(handle) as client:
        client.writer.write(GET)
        await client.head()
        assert await client.rest() == text
    assert [record.message for record in caplog.records] == (["apiserver panic'd"] if logged else [])


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb: c", "a\rb"])
async def test_line_breaks_in_response_headers_are_rejected(value: str, caplog: pytest.LogCaptureFixture) -> None:
    async def handle(http: HttpRequest) -> None:
        await http.respond(200, [("X-A", value)], [])

    async with serving(handle) as client:
        client.writer.write(GET)
        assert (await client.head())[0] == "HTTP/1.1 500 Internal Server Error"
    assert "line break" in caplog.text


class Reader:
    """Handler that reads at most ten bytes."""

    def __init__(self) -> None:
        self.result: Any = None

    async def __call__(self, http: HttpRequest) -> None:
        assert http.has_body
        try:
            self.result = await http.read_body(10)
        except BodyTooLong as error:
            self.result = type(error)
        await ok(http)


@pytest.mark.parametrize(
    ("framed", "result"),
    [
        (b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (b"Content-Length: 11\r\n\r\nhello hello", BodyTooLong),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"Transfer-Encoding: chunked\r\n\r\nb\r\nhello hello\r\n0\r\n\r\n", BodyTooLong),
    ],
)
async def test_body_is_read_up_to_the_limit(framed: bytes, result: Any) -> None:
    reader = Reader()
    async with serving(reader) as client:
        head, _, body = framed.partition(b"\r\n\r\n")
        client.writer.write(b"POST / HTTP/1.1\r\nHost: api\r\n" + head + b"\r\n\r\n")
        await asyncio.sleep(0.01)
        client.writer.write(body)
        await client.head()
    assert reader.result == result


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_client_that_expects_permission_receives_it_when_read(in_pieces: bool) -> None:
    bodies = []

    async def handle(http: HttpRequest) -> None:
        bodies.append(b"".join([piece async for piece in http.body()]) if in_pieces else await http.read_body(10))
        await ok(http)

    async with serving(handle) as client:
        client.writer.write(b"POST / HTTP/1.1\r\nHost: api\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert (await client.head())[0] == "HTTP/1.1 100 Continue"
        client.writer.write(b"hello")
        assert (await client.head())[0] == "HTTP/1.1 200 OK"
    assert bodies == [b"hello"]


async def test_connection_is_idle_between_requests() -> None:
    go, seen = asyncio.Event(), []

    async def handle(http: HttpRequest) -> None:
        seen.append(connection.idle)
        await go.wait()
        await ok(http)

    async with serving(handle) as client:
        while not client.served:
            await asyncio.sleep(0)
        connection = client.served[0]
        started = connection.unused_since
        await asyncio.sleep(0.01)
        assert connection.idle
        client.writer.write(b"GET / HTTP/1.1\r\nHost")
        await asyncio.sleep(0.01)
        assert connection.idle
        client.writer.write(b": a\r\n\r\n" + GET)
        await asyncio.sleep(0.01)
        assert not connection.idle
        go.set()
        while len(seen) < 2:
            assert not connection.idle  # not even while the pipelined request is waiting
            await asyncio.sleep(0)
        await client.reader.readuntil(b"ok")
        await client.reader.readuntil(b"ok")
        await asyncio.sleep(0.01)
        assert connection.idle and connection.unused_since > started


async def test_idle_timeout_starts_again_with_each_response(monkeypatch: pytest.MonkeyPatch) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def handle(http: HttpRequest) -> None:
        started.set()
        await go.wait()
        await ok(http)

    loop, passed = asyncio.get_running_loop(), 0.0
    system_time = loop.time
    monkeypatch.setattr(loop, "time", lambda: system_time() + passed)
    async with serving(handle, idle_seconds=3) as client:
        client.writer.write(GET)
        await started.wait()
        passed = 4
        await asyncio.sleep(0.01)
        go.set()
        await client.reader.readuntil(b"ok")
        passed = 6
        await asyncio.sleep(0.01)
        assert client.served[0].transport is not None
        passed = 8
        assert await client.rest() == b""


async def test_received_request_is_not_idle_before_its_handler_runs() -> None:
    idle = []

    async def handle(http: HttpRequest) -> None:
        idle.append(client.served[0].idle)
        await ok(http)

    async with serving(handle) as client:
        while not client.served:
            await asyncio.sleep(0)
        connection = client.served[0]
        connection.data_received(GET)
        while not idle:
            idle_before = connection.idle
            await asyncio.sleep(0)
            assert not idle_before
        assert idle == [False]


async def test_connection_lost_during_a_request_is_freed_without_the_collector() -> None:
    started, endless = asyncio.Event(), asyncio.Event()

    async def handle(http: HttpRequest) -> None:
        started.set()
        await endless.wait()

    async with serving(handle) as client:
        client.writer.write(GET)
        await started.wait()
        lost = weakref.ref(client.served.pop())
        gc.disable()
        try:
            client.writer.transport.abort()
            while lost() is not None:
                await asyncio.sleep(0.001)
        finally:
            gc.enable()


async def test_client_that_never_reads_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure, "STALLED_SECONDS", 0.05)
    failed = asyncio.Event()

    async def handle(http: HttpRequest) -> None:
        try:
            await http.respond(200, [], [bytes(1 << 20)] * 40)
        except ConnectionResetError:
            failed.set()
            raise

    async with serving(handle) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(GET)
        await failed.wait()


async def test_stream_that_may_stall_waits_for_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure, "STALLED_SECONDS", 0.01)

    async def handle(http: HttpRequest) -> None:
        response = http.start(200, [("Content-Length", str(40 << 20))], may_stall=True)
        for _ in range(40):
            await response.write(bytes(1 << 20))
        response.end()

    async with serving(handle) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(GET)
        await asyncio.sleep(0.2)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await client.head()
        assert len(await client.reader.readexactly(40 << 20)) == 40 << 20


class Echo(asyncio.Protocol):
    """Protocol that sends back received data in upper case until it receives ``bye``."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data.upper())
        if data == b"bye":
            self.closed.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.closed.set()


async def test_upgraded_connection_belongs_to_the_protocol() -> None:
    async def handle(http: HttpRequest) -> None:
        echo = Echo()
        http.upgrade(echo, [("Upgrade", "echo"), ("Connection", "Upgrade")])
        await echo.closed.wait()

    async with serving(handle) as client:
        client.writer.write(GET.replace(b"\r\n\r\n", b"\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"))
        headers = {"Upgrade": "echo", "Connection": "Upgrade"}
        assert await client.head() == ("HTTP/1.1 101 Switching Protocols", headers)
        client.writer.write(b"hello")
        assert await client.reader.readexactly(5) == b"HELLO"
        client.writer.write(b"bye")
        assert await client.rest() == b"BYE"


async def test_malformed_request_gets_one_line() -> None:
    async with serving(ok) as client:
        client.writer.write(b"\x00nonsense\r\n\r\n")
        assert (await client.head())[0] == "HTTP/1.0 400 Bad Request"
        assert await client.rest() == b"Invalid method encountered"


CHUNKED = b"POST / HTTP/1.1\r\nHost: api\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_trailers_are_not_headers() -> None:
    names: list[str] = []

    async def handle(http: HttpRequest) -> None:
        assert await http.read_body(10) == b"a"
        names.extend(http.headers)
        await ok(http)

    async with serving(handle) as client:
        client.writer.write(CHUNKED + b"1\r\na\r\n0\r\nX-Remote-User: admin\r\n\r\n")
        assert (await client.head())[0] == "HTTP/1.1 200 OK"
    assert names == ["Host", "Transfer-Encoding"]


@pytest.mark.parametrize("trailers", [b"A: " + b"a" * (1 << 18), b"A: a\r\n" * 300, b"1;" + b"a" * (1 << 18)])
async def test_trailers_and_chunk_extensions_are_limited(trailers: bytes) -> None:
    results: list[Any] = []

    async def handle(http: HttpRequest) -> None:
        try:
            await http.read_body(10)
        except MalformedBody as error:
            results.append(str(error))
        http.reject(400, "malformed")

    async with serving(handle) as client:
        last = b"" if trailers.startswith(b"1;") else b"0\r\n"
        client.writer.write(CHUNKED + b"1\r\na\r\n" + last + trailers)
        assert (await client.head())[0] == "HTTP/1.1 400 Bad Request"
    assert len(results) == 1


class Line(asyncio.Transport):
    """Transport that records whether the client may send."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.paused = b"", False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def close(self) -> None:
        pass


async def test_client_with_too_many_waiting_requests_is_paused() -> None:
    go = asyncio.Event()

    async def handle(http: HttpRequest) -> None:
        await go.wait()
        await ok(http)

    server, line = create_server(handle), Line()
    connection = Connection(server, "192.0.2.1", lambda: None, ThrottledConnectionLog(), idle_seconds=90)
    connection.connection_made(line)
    size = (256 << 10) // 16
    request = GET.replace(b"\r\n\r\n", b"\r\nX-A: ") + b"a" * (size - len(GET) - 7) + b"\r\n\r\n"
    assert len(request) == size
    connection.data_received(request)
    for _ in range(17):
        assert not line.paused
        connection.data_received(request)
    assert line.paused

    go.set()
    while line.paused:
        await asyncio.sleep(0)
    while line.written.count(b"200 OK") < 18:
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await server.shutdown(1)
