"""Tests for exec, attach, port-forward and run with a fake streaming endpoint of the runtime."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nodeagent.contracts.configuration import seconds
from nodeagent.contracts.runtime import ExecResult
from nodeagent.errors import RuntimeFailure
from nodeagent.testing import FakePodDirectory, FakeRuntime, make_pod
from nodeagent.testing.clock import eventually
from tests.integration.server.conftest import protocol_token, serving

SPDY = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
WEBSOCKET = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a2V5\r\n"
ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
POD = make_pod("web", containers=["main"])


class StreamingRuntime(FakeRuntime):
    """Runtime with a streaming endpoint that sends one response, then echoes."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.heads: list[str] = []
        self.response = ACCEPTED
        self.port = 0
        self.open = 0
        self.silent = False
        self.ended = asyncio.Event()

    @asynccontextmanager
    async def endpoint(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield
            self.ended.set()
            await eventually(lambda: self.open == 0)

    async def exec_url(self, *arguments, **options):
        return (await super().exec_url(*arguments, **options)).replace(":1/", f":{self.port}/") + "?t=1"

    async def attach_url(self, *arguments, **options):
        return (await super().attach_url(*arguments, **options)).replace(":1/", f":{self.port}/")

    async def port_forward_url(self, *arguments, **options):
        return (await super().port_forward_url(*arguments, **options)).replace(":1/", f":{self.port}/")

    async def _serve(self, reader, writer):
        self.open += 1
        try:
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(self.response)
            while not self.silent and (data := await reader.read(65536)):
                writer.write(data)
                await writer.drain()
            if self.silent:
                await self.ended.wait()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def node_with_pod(pki, tmp_path, **fields):
    runtime = StreamingRuntime()
    pods = FakePodDirectory(POD)
    container_id = runtime.start("main", POD)
    pods.runtime_pods[POD.uid] = runtime.pod(POD.uid)
    async with (
        runtime.endpoint(),
        serving(pki, tmp_path, parts={"runtime": runtime, "pods": pods}, **fields) as node,
    ):
        yield node, runtime, container_id


@asynccontextmanager
async def stream(node, target, extra=SPDY, *, method="POST", who="admin"):
    """Yield the response, and both ends of the stream."""
    reader, writer = await node.connect(node.pki.client(who) if who else None)
    try:
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: node-1\r\n{extra}\r\n".encode())
        async with asyncio.timeout(5):
            head = await reader.readuntil(b"\r\n\r\n")
        yield head.decode(), reader, writer
    finally:
        writer.close()
        with contextlib.suppress(Exception):
            await writer.wait_closed()


EXEC = "/exec/default/web/main?command=echo&command=a%20b&input=1&output=1&error=1"


@pytest.mark.row("path.agent.exec-attach-logs-portforward", "config.enableDebuggingHandlers")
@pytest.mark.parametrize(
    ("target", "call"),
    [
        (EXEC, ("exec_url", ("echo", "a b"), True, True, True, False)),
        (
            "/exec/default/web/uid-web/main?command=sh&output=1&error=1&tty=1",
            ("exec_url", ("sh",), False, True, False, True),
        ),
        ("/attach/default/web/main?output=1", ("attach_url", False, True, False, False)),
        ("/portForward/default/web", ("port_forward_url", ())),
    ],
)
async def test_bytes_are_forwarded_between_client_and_runtime(pki, tmp_path, target, call):
    async with node_with_pod(pki, tmp_path) as (node, runtime, _):
        async with stream(node, target) as (head, reader, writer):
            writer.write(b"\x80\x03\x00\x01" + b"x" * 300_000)
            async with asyncio.timeout(5):
                echoed = await reader.readexactly(300_004)
        await eventually(lambda: runtime.open == 0)
        (called,) = runtime.called(call[0])

    assert head.encode() == ACCEPTED
    assert echoed == b"\x80\x03\x00\x01" + b"x" * 300_000
    assert tuple(called.arguments[1:]) == call[1:]
    assert "X-Stream-Protocol-Version: v4.channel.k8s.io" in runtime.heads[0]


async def test_credentials_are_not_forwarded_to_the_runtime(pki, tmp_path):
    extra = f"{WEBSOCKET}Cookie: a=b\r\nSec-WebSocket-Protocol: {protocol_token('admin-token')}, v4.channel.k8s.io\r\n"
    async with node_with_pod(pki, tmp_path) as (node, runtime, _):
        async with stream(node, EXEC, extra, method="GET", who="") as (head, _, _):
            pass
        async with stream(node, EXEC, SPDY + "Authorization: Bearer admin-token\r\n", who="") as (other, _, _):
            pass

    assert head.startswith("HTTP/1.1 101 ")
    assert other.startswith("HTTP/1.1 101 ")
    text = "".join(runtime.heads).lower()
    assert "bearer" not in text
    assert "cookie" not in text
    assert "sec-websocket-protocol: v4.channel.k8s.io\r\n" in text
    assert runtime.heads[0].startswith("GET /exec/")


async def test_websocket_requires_permission_to_create(pki, tmp_path):
    extra = f"{WEBSOCKET}Authorization: Bearer viewer-token\r\n"
    async with (
        node_with_pod(pki, tmp_path) as (node, runtime, _),
        stream(node, EXEC, extra, method="GET", who="") as (head, reader, _),
    ):
        body = await reader.readexactly(66)

    assert head.startswith("HTTP/1.1 403 ")
    assert body == b"Forbidden (user=viewer, verb=create, resource=nodes, subresource=p"
    assert runtime.heads == []
    assert runtime.called("exec_url") == []


@pytest.mark.parametrize(
    ("response", "status"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n", 502),
        (b"HTTP/1.1 404 Not Found\r\n\r\nno such token", 404),
        (b"nonsense\r\n\r\n", 502),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000, 502),
    ],
)
async def test_stream_opens_only_if_the_runtime_accepts(pki, tmp_path, response, status):
    async with node_with_pod(pki, tmp_path) as (node, runtime, _):
        runtime.response = response
        async with stream(node, EXEC) as (head, _, _):
            pass

    assert head.startswith(f"HTTP/1.1 {status} ")
    assert "location" not in head.lower()


@pytest.mark.row("config.streamingConnectionIdleTimeout")
async def test_idle_connection_is_closed(pki, tmp_path):
    async with node_with_pod(pki, tmp_path, streaming_connection_idle_timeout=seconds(60)) as (node, runtime, _):
        async with stream(node, EXEC) as (_, reader, writer):
            await node.clock.advance(59)
            writer.write(b"still here")
            async with asyncio.timeout(5):
                assert await reader.readexactly(10) == b"still here"
            await node.clock.advance(59)
            open_before = runtime.open
            await node.clock.advance(2)
            async with asyncio.timeout(5):
                assert await reader.read() == b""
        await eventually(lambda: runtime.open == 0)

    assert open_before == 1


async def test_slow_client_pauses_the_runtime(pki, tmp_path):
    async with node_with_pod(pki, tmp_path) as (node, runtime, _):
        runtime.silent = True
        async with stream(node, EXEC) as (_, _, writer):
            writer.transport.set_write_buffer_limits(high=1024)
            accepted_bytes = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    while True:
                        writer.write(b"x" * 65536)
                        accepted_bytes += 65536
                        await writer.drain()
            writer.transport.abort()

    assert accepted_bytes < 20_000_000  # Only the buffers of two sockets.


async def test_disconnected_client_closes_the_runtimes_connection(pki, tmp_path):
    async with node_with_pod(pki, tmp_path) as (node, runtime, _), stream(node, EXEC) as (_, _, writer):
        await eventually(lambda: runtime.open == 1)
        writer.transport.abort()
        await eventually(lambda: runtime.open == 0)


@pytest.mark.parametrize(
    ("target", "extra", "status", "text"),
    [
        ("/exec/default/web/main?command=a&output=1", "", 500, "Upgrade request required"),
        ("/exec/default/web/main?command=a", "", 400, "at least 1 of stdin"),
        ("/attach/default/none/main?output=1", "", 404, "pod does not exist"),
        ("/portForward/default/none", "", 404, "pod does not exist"),
        ("/exec/default/web/main?command=a", SPDY, 400, "at least 1 of stdin"),
        ("/exec/default/web/main?output=1", SPDY, 400, "must specify a command"),
        ("/exec/default/none/main?command=a&output=1", SPDY, 404, "pod does not exist"),
        ("/exec/default/web/uid-other/main?command=a&output=1", SPDY, 404, "pod does not exist"),
        ("/exec/default/web/none?command=a&output=1", SPDY, 404, "container not found"),
        ("/portForward/default/web", WEBSOCKET, 400, "is required"),
        ("/portForward/default/web?port=80,x", WEBSOCKET, 400, "must be between"),
    ],
)
async def test_invalid_request_is_rejected_with_its_reason(pki, tmp_path, target, extra, status, text):
    headers = dict(line.split(": ") for line in extra.split("\r\n") if line)
    async with node_with_pod(pki, tmp_path) as (node, _, _):
        got, body, _ = await node.fetch(target, method="POST", tls=pki.client("admin"), headers=headers)

    assert (got, text in body) == (status, True), body


async def test_run_returns_the_output(pki, tmp_path):
    async with node_with_pod(pki, tmp_path) as (node, runtime, container_id):
        runtime.on_exec("main", lambda command: ExecResult(len(command) - 2, b"out\n", b"err\n"))
        admin = pki.client("admin")
        fine = await node.fetch("/run/default/web/main?cmd=echo+x", method="POST", tls=admin)
        failed = await node.fetch("/run/default/web/main?cmd=echo+x+y", method="POST", tls=admin)
        runtime.fail("exec_sync", RuntimeFailure("broken"))
        broken = await node.fetch("/run/default/web/main?cmd=echo", method="POST", tls=admin)
        called = runtime.called("exec_sync")[0]

    assert fine[:2] == (200, "out\nerr\n")
    assert failed[:2] == (500, "out\nerr\n")
    assert broken[:2] == (500, "broken\n")
    assert called.arguments[:2] == (container_id, ("echo", "x"))


@pytest.mark.row("config.enableDebuggingHandlers", "path.agent.exec-attach-logs-portforward")
async def test_streams_require_debugging_handlers(pki, tmp_path):
    async with node_with_pod(pki, tmp_path, enable_debugging_handlers=False) as (node, runtime, _):
        for path in ("exec", "attach", "run"):
            status, text, _ = await node.fetch(
                f"/{path}/default/web/main?cmd=x", method="POST", tls=pki.client("admin")
            )
            assert (status, text) == (405, "Debug endpoints are disabled.\n")

    assert runtime.called("exec_sync") == []


async def test_each_stream_is_logged_with_user_and_bytes(pki, tmp_path, caplog):
    caplog.set_level("INFO")
    async with node_with_pod(pki, tmp_path) as (node, _, _):
        async with stream(node, EXEC) as (_, reader, writer):
            writer.write(b"12345")
            await reader.readexactly(5)
        await eventually(lambda: any(record.message == "Served" for record in caplog.records))

    (record,) = [record for record in caplog.records if record.message == "Served"]
    assert (record.user, record.bytes, record.status, record.source) == ("admin", 5, 101, "127.0.0.1")


async def test_forbidden_user_and_size_of_run_output_are_logged(pki, tmp_path, caplog):
    caplog.set_level("INFO")
    async with node_with_pod(pki, tmp_path) as (node, _, _):
        await node.fetch("/run/default/web/main?cmd=x", method="POST", tls=pki.client("viewer"))
        _, text, _ = await node.fetch("/run/default/web/main?cmd=x", method="POST", tls=pki.client("admin"))
        await eventually(lambda: sum(record.message == "Served" for record in caplog.records) == 2)

    forbidden, done = [record for record in caplog.records if record.message == "Served"]
    assert (forbidden.user, forbidden.status) == ("viewer", 403)
    assert (done.user, done.status, done.bytes) == ("admin", 200, len(text))
