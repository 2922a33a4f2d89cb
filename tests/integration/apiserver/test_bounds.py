"""Tests for limits: large, nested and slow requests end without affecting others."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from apiserver_stub.server.running_server import RunningServer
from apiserver_stub.transport import backpressure, listener

from .in_process import start

MAPS = "/api/v1/namespaces/default/configmaps"
MIB = 1 << 20


class ServerHarness:
    """Server in the test process, an administrator's client, and raw connections."""

    def __init__(self, running: RunningServer, session: aiohttp.ClientSession) -> None:
        self.running, self.session = running, session
        self.tls = ssl.create_default_context(cafile=str(running.ca_file))
        parts = urlsplit(running.url)
        self.host, self.port = parts.hostname or "", parts.port or 0

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body
        if isinstance(body, dict):
            data, named = json.dumps(body).encode(), {"Content-Type": "application/json"} | named
        if isinstance(data, bytes):
            data = io.BytesIO(data)  # the client warns about long bodies
        url = self.running.url + path
        async with self.session.request(method, url, ssl=self.tls, data=data, headers=named) as response:
            return response.status, await response.read()

    async def ok(self, method: str, path: str, body: Any = None) -> Any:
        code, reply = await self.call(method, path, body)
        assert code < 300, reply
        return json.loads(reply)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=self.tls, limit=64 << 10)
        try:
            yield reader, writer
        finally:
            with contextlib.suppress(AttributeError):  # Of Python 3.11.2, if the server has closed the connection.
                writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def head(self, method: str, path: str, *more: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {self.running.token}", *more]
        return ("\r\n".join(lines) + "\r\n").encode()

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return self.running.listener.connections


@asynccontextmanager
async def serving(data: Path, *arguments: str) -> AsyncIterator[ServerHarness]:
    running = await start(data, *arguments)
    headers = {"Authorization": f"Bearer {running.token}"}
    try:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
            yield ServerHarness(running, session)
    finally:
        await running.stop()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ServerHarness]:
    async with serving(tmp_path / "data") as found:
        yield found


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Return received bytes until the connection is closed."""
    found = b""
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while piece := await reader.read(1 << 16):
                found += piece
    return found


async def test_bodies_over_three_mebibytes_are_rejected(harness: ServerHarness) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"x" * MIB

    code, body = await harness.call("POST", MAPS, b"x" * (3 * MIB + 1))
    assert (code, json.loads(body)["reason"]) == (413, "RequestEntityTooLarge")
    assert (await harness.call("POST", MAPS, pieces()))[0] == 413
    fits = {"metadata": {"name": "large"}, "data": {"k": "x" * (MIB - 100)}}
    assert (await harness.call("POST", MAPS, fits))[0] == 201


async def test_http_1_requests_get_complete_responses_in_order(harness: ServerHarness) -> None:
    for version, connection, stays in [
        ("1.1", "", True),
        ("1.1", "close", False),
        ("1.0", "", False),
        ("1.0", "keep-alive", True),
    ]:
        await check_responses(harness, version, connection, stays=stays)


async def check_responses(harness: ServerHarness, version: str, connection: str, *, stays: bool) -> None:
    def requested(method: str, path: str, last: str) -> bytes:
        more = (f"Connection: {last}",) if last else ()
        return harness.head(method, path, *more).replace(b"HTTP/1.1", b"HTTP/" + version.encode()) + b"\r\n"

    async with harness.connection() as (reader, writer):
        writer.write(requested("GET", "/version", connection))
        if stays:  # the next requests are sent before the first response
            writer.write(requested("HEAD", "/version", connection))
            writer.write(requested("GET", "/api/v1/namespaces/none", "close"))
        text = await ended(reader)

    first, _, rest = text.partition(b"\r\n\r\n")
    assert first.startswith(f"HTTP/{version} 200 OK\r\n".encode())
    length = int(re.findall(rb"Content-Length: (\d+)", first)[0])
    assert json.loads(rest[:length])["minor"]
    if not stays:
        assert len(rest) == length
        return
    head, _, last = rest[length:].partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/{version} 200 OK\r\n".encode())
    assert last.startswith(f"HTTP/{version} 404 Not Found\r\n".encode())  # there is no body between the responses
    assert json.loads(last.partition(b"\r\n\r\n")[2])["code"] == 404


DEEP = 100_000
MANAGED = b'{"metadata":{"name":"m","managedFields":[{"fieldsV1":%s}]}}' % (b'{"f:a":' * 900 + b"1" + b"}" * 900)


NESTED_BODIES = [
    ("POST", "application/json", b"[" * DEEP),
    ("POST", "application/json", b'{"a":' * DEEP + b"1" + b"}" * DEEP),
    ("POST", "application/json", MANAGED),
    ("POST", "application/yaml", b"[" * DEEP),
    ("POST", "application/yaml", b"- " * DEEP),
    (
        "POST",
        "application/yaml",
        b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d,*a%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 99)),
    ),
    ("POST", "application/vnd.kubernetes.protobuf", b"k8s\0" + b"\x12\x80\x80\x80\x01" + b"\x0a" * DEEP),
    ("PATCH", "application/json-patch+json", b'[{"op":"add","path":"/x","value":' + b"[" * DEEP),
    ("PATCH", "application/merge-patch+json", b'{"a":' * 900 + b"1" + b"}" * 900),
    ("PATCH", "application/strategic-merge-patch+json", b'{"a":' * 900 + b"1" + b"}" * 900),
    ("PATCH", "application/apply-patch+yaml", b"{a: " * DEEP),
]


async def test_deeply_nested_bodies_are_rejected(harness: ServerHarness) -> None:
    await harness.ok("POST", MAPS, {"metadata": {"name": "m"}})

    for method, content_type, body in NESTED_BODIES:
        path = MAPS if method == "POST" else f"{MAPS}/m?fieldManager=x"

        code, reply = await harness.call(method, path, body, Content_Type=content_type)

        case = method, content_type, body[:40], reply[:200]
        assert 400 <= code < 500 or (method == "PATCH" and code == 200), case
        assert (await harness.ok("GET", f"{MAPS}/m"))["metadata"]["name"] == "m", case


async def test_warnings_are_limited(harness: ServerHarness) -> None:
    strange = {"metadata": {"name": "strange"}} | {f"unknown{number}": 1 for number in range(20_000)}
    url, body = harness.running.url + MAPS, json.dumps(strange).encode()
    headers = {"Content-Type": "application/json"}

    async with harness.session.post(url, ssl=harness.tls, data=io.BytesIO(body), headers=headers) as response:
        assert response.status == 201
        reported = response.headers.getall("Warning")

    assert reported[0] == '299 - "unknown field \\"unknown0\\""'
    assert len(reported) == 100


async def test_compressed_bodies_are_not_decompressed(harness: ServerHarness) -> None:
    bomb = gzip.compress(b'{"metadata":{"name":"z"}}' + b" " * (64 * MIB))

    code, body = await harness.call("POST", MAPS, bomb, Content_Encoding="gzip", Content_Type="application/json")

    assert code == 400, body
    packed = b"k8s\0" + b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap" + b"\x12\x02\x0a\x00" + b"\x1a\x04gzip"
    code, body = await harness.call("POST", MAPS, packed, Content_Type="application/vnd.kubernetes.protobuf")
    assert (code, b"gzip" in body) == (400, True)


async def test_endless_headers_close_the_connection(harness: ServerHarness) -> None:
    for more in (
        b"X-Long: " + b"a" * MIB,
        b"".join(b"X-%d: a\r\n" % number for number in range(10_000)),
        b"X-Folded: a" + b"\r\n b" * 100_000,
    ):
        async with harness.connection() as (reader, writer):
            writer.write(harness.head("GET", MAPS) + more)

            assert b" 400 " in (await ended(reader)).partition(b"\r\n")[0], more[:20]


async def test_long_token_and_query_are_accepted(harness: ServerHarness) -> None:
    code, _ = await harness.call("GET", f"{MAPS}?labelSelector={','.join(['a'] * 15_000)}", X_Long="a" * 15_000)
    assert code == 200


async def test_incomplete_requests_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "IDLE_SECONDS", 1.0)
    async with serving(tmp_path / "data", "--request-timeout=300ms") as harness:
        async with harness.connection() as (reader, writer), harness.connection() as (other, nothing):
            writer.write(harness.head("GET", MAPS))  # without the empty line
            trickle = asyncio.create_task(_trickle(writer))
            assert await ended(reader) == b""
            trickle.cancel()
            assert await ended(other) == b""
            nothing.close()
        async with harness.connection() as (reader, writer):
            writer.write(harness.head("POST", MAPS, "Content-Length: 1000000") + b"\r\n{")
            assert b" 504 " in await asyncio.wait_for(reader.readline(), 10)


async def _trickle(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"X-More: a\r\n")
        await asyncio.sleep(0.1)


async def test_client_that_never_reads_is_disconnected(harness: ServerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure, "STALLED_SECONDS", 0.3)
    for number in range(12):
        await harness.ok("POST", MAPS, {"metadata": {"name": f"m{number}"}, "data": {"k": "x" * (MIB - 1000)}})
    before = harness.connections
    for path in (MAPS, f"{MAPS}?watch=1"):
        async with harness.connection() as (_, writer):
            writer.transport.pause_reading()
            writer.write((harness.head("GET", path) + b"\r\n") * 20)
            async with asyncio.timeout(20):
                while harness.connections <= before:
                    await asyncio.sleep(0.01)
                while harness.connections > before:
                    await asyncio.sleep(0.05)


async def test_stalled_watcher_does_not_delay_others(harness: ServerHarness) -> None:
    changes, padding = 40, "x" * (64 << 10)
    async with harness.connection() as (_, writer):
        writer.transport.pause_reading()
        writer.write(harness.head("GET", f"{MAPS}?watch=1&resourceVersion=0") + b"\r\n")
        watches = [asyncio.create_task(_watch(harness, changes)) for _ in range(100)]
        while harness.running.metrics.watches < 101:
            await asyncio.sleep(0.01)
        for number in range(changes):
            await harness.ok("POST", MAPS, {"metadata": {"name": f"w{number}"}, "data": {"k": padding}})
        seen = await asyncio.gather(*watches)
    assert all(names == [f"w{number}" for number in range(changes)] for names in seen)


async def _watch(harness: ServerHarness, changes: int) -> list[str]:
    """Return the names in the events of a watch, in order."""
    found: list[str] = []
    url = f"{harness.running.url}{MAPS}?watch=1"
    async with asyncio.timeout(60), harness.session.get(url, ssl=harness.tls) as response:
        rest = b""
        async for piece in response.content.iter_any():
            *lines, rest = (rest + piece).split(b"\n")
            names = [json.loads(line)["object"]["metadata"]["name"] for line in lines]
            found += [name for name in names if name.startswith("w")]
            if len(found) >= changes:
                break
    return found


async def test_thousand_idle_connections_leave_the_server_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "IDLE_SECONDS", 2.0)
    async with serving(tmp_path / "data") as harness:
        bare = [await asyncio.open_connection(harness.host, harness.port) for _ in range(1000)]
        idle = [await asyncio.open_connection(harness.host, harness.port, ssl=harness.tls) for _ in range(50)]
        assert await harness.ok("GET", MAPS)
        assert await asyncio.gather(*(ended(reader) for reader, _ in idle)) == [b""] * len(idle)
        assert await harness.ok("GET", MAPS)
        for _, writer in bare + idle:
            writer.transport.abort()
        for _, writer in bare + idle:
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@asynccontextmanager
async def bare(harness: ServerHarness, count: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Yield connections without a TLS handshake."""
    pairs = [await asyncio.open_connection(harness.host, harness.port) for _ in range(count)]
    try:
        yield [reader for reader, _ in pairs]
    finally:
        for _, writer in pairs:
            writer.transport.abort()
        for _, writer in pairs:
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def test_missing_handshake_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 0.5)
    async with serving(tmp_path / "data") as harness, bare(harness, 3) as readers:
        assert await asyncio.gather(*(ended(reader) for reader in readers)) == [b""] * 3

        _, page = await harness.call("GET", "/metrics")
        assert b"\napiserver_tls_handshake_errors_total 3\n" in page


async def test_slow_handshakes_are_closed_for_new_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_HANDSHAKES", 4)
    monkeypatch.setattr(listener, "HURRIED_SECONDS", 0.2)
    monkeypatch.setattr(listener, "HANDSHAKE_SECONDS", 3600.0)
    async with serving(tmp_path / "data") as harness, bare(harness, 12) as readers:
        assert await harness.ok("GET", MAPS)

        gone = [asyncio.create_task(ended(reader)) for reader in readers]
        await asyncio.wait(gone, return_when=asyncio.FIRST_COMPLETED)
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)


async def test_idle_connections_are_closed_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 10)
    async with serving(tmp_path / "data") as harness, contextlib.AsyncExitStack() as stack:
        watching, watcher = await stack.enter_async_context(harness.connection())
        watcher.write(harness.head("GET", f"{MAPS}?watch=1") + b"\r\n")
        assert b" 200 " in await watching.readline()
        for _ in range(30):
            reader, writer = await stack.enter_async_context(harness.connection())
            writer.write(harness.head("GET", "/version") + b"\r\n")
            assert b" 200 " in await reader.readline()

        assert harness.connections <= 10
        await harness.ok("POST", MAPS, {"metadata": {"name": "seen"}})
        assert b'"seen"' in await asyncio.wait_for(watching.readuntil(b'"seen"'), 20)


async def test_invalid_http_gets_status_400_and_is_not_logged(
    harness: ServerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        async with harness.connection() as (reader, writer):
            writer.write(b"\x00\x01nonsense\r\n\r\n")
            assert b" 400 " in (await ended(reader)).partition(b"\r\n")[0]

    assert not caplog.records
