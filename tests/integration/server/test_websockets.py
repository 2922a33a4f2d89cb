"""Tests for WebSockets that end at the node: exec, attach and port-forward with a runtime that streams over SPDY."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
import pytest

from nodeagent.base.release import Release
from nodeagent.base.spdy import Kind, Reader, Writer
from nodeagent.config.features import build_gates
from nodeagent.contracts.configuration import seconds
from nodeagent.testing import FakePodDirectory, FakeRuntime, make_pod
from nodeagent.testing.clock import eventually
from nodeagent_plugins.embedded_runtime.channels import CLOSE, STDERR, STDIN, STDOUT
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.spdy_session import SpdySession
from nodeagent_plugins.embedded_runtime.streaming import StreamingServer
from tests.integration.server.conftest import protocol_token, serving

V5 = "v5.channel.k8s.io"
TUNNEL = "SPDY/3.1+portforward.k8s.io"
RELEASE = Release(1, 36)
POD = make_pod("web", containers=["main"])
EXEC = "/exec/default/web/main?command=cat&input=1&output=1&error=1"


class SpdyRuntime(FakeRuntime):
    """Runtime whose streaming endpoint executes ``cat`` over SPDY and forwards ports to *port*."""

    def __init__(self):
        super().__init__()
        self.exit_code = 0
        self.port = 0
        self.sizes: list[bytes] = []
        self.ended = 0
        self.broken = False
        self.server = StreamingServer(self.run)

    async def exec_url(self, container_id, command, **streams):
        request = SimpleNamespace(cmd=command, **streams)
        return "http://127.0.0.1:1/gone" if self.broken else await self.server.offer("exec", request)

    async def attach_url(self, container_id, **streams):
        return await self.server.offer("attach", SimpleNamespace(cmd=[], **streams))

    async def port_forward_url(self, sandbox_id, ports):
        return await self.server.offer("portforward", SimpleNamespace(port=ports))

    async def run(self, kind, request, session):
        if not isinstance(session, SpdySession):
            await session.send(STDERR, b"WebSocket")
            return
        try:
            await (self._forward(session) if kind == "portforward" else self._cat(request, session))
        finally:
            self.ended += 1

    async def _forward(self, session):
        await session.forward(lambda port: socket.create_connection(("127.0.0.1", self.port), timeout=5))

    async def _cat(self, request, session):
        if request.cmd == ["crash"]:
            return
        await session.open(request)
        if request.cmd == ["missing"]:
            raise CallError("no such command")
        ended = asyncio.Event()

        async def feed(channel, data):
            if channel == STDIN:
                await session.send(STDOUT, data)
            elif channel == CLOSE:
                await session.send(STDERR, b"closed")
                ended.set()
            else:
                self.sizes.append(data)
                ended.set()

        reading = asyncio.create_task(session.read(feed))
        await asyncio.wait([reading, waiting := asyncio.create_task(ended.wait())], return_when="FIRST_COMPLETED")
        for task in (reading, waiting):
            task.cancel()
        await session.succeed(self.exit_code)


@asynccontextmanager
async def node_of(pki, tmp_path, *, release=RELEASE, **fields):
    runtime, pods = SpdyRuntime(), FakePodDirectory(POD)
    runtime.start("main", POD)
    pods.runtime_pods[POD.uid] = runtime.pod(POD.uid)
    parts = {"runtime": runtime, "pods": pods, "gates": build_gates({}, release)}
    try:
        async with serving(pki, tmp_path, parts=parts, **fields) as node:
            yield node, runtime
    finally:
        await runtime.server.close()


@asynccontextmanager
async def websocket(node, path, *protocols, tls=None) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    connector = aiohttp.TCPConnector(ssl=tls or node.pki.client("admin"))
    url = f"https://127.0.0.1:{node.server.port}{path}"
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        asyncio.timeout(20),
        session.ws_connect(url, protocols=protocols) as stream,
    ):
        yield stream


async def converse(stream, *sent: bytes) -> dict[int, bytes]:
    """Send messages and return the output by channel, until the server closes the WebSocket."""
    received: dict[int, bytes] = {}
    for message in sent:
        await stream.send_bytes(message)
    async for message in stream:
        received[message.data[0]] = received.get(message.data[0], b"") + message.data[1:]
    return received


@pytest.mark.parametrize("code", [0, 7])
async def test_client_closes_its_input_and_receives_the_exit_code(pki, tmp_path, code):
    async with node_of(pki, tmp_path) as (node, runtime):
        runtime.exit_code = code
        async with websocket(node, EXEC, protocol_token("admin-token"), V5) as stream:
            first = await stream.receive()
            received = await converse(stream, b"\0hello", b"\0" + b"x" * 300_000, b"\xff\0")
        _, metrics, _ = await node.fetch("/metrics", token="scraper-token")

    assert stream.protocol == V5
    assert first.data == b"\1"
    assert received[1] == b"hello" + b"x" * 300_000
    assert received[2] == b"closed"
    status = json.loads(received[3])
    if not code:
        assert status == {"metadata": {}, "status": "Success"}
    else:
        assert status["reason"] == "NonZeroExitCode"
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
        expected = "command terminated with non-zero exit code: command terminated with exit code 7"
        assert status["message"] == expected
    assert 'websocket_streaming_requests_total{subresource="exec"}' in metrics


async def test_terminal_size_is_sent_to_the_runtime(pki, tmp_path):
    target = "/attach/default/web/main?input=1&output=1&tty=1"
    async with node_of(pki, tmp_path) as (node, runtime), websocket(node, target, V5) as stream:
        received = await converse(stream, b'\4{"Width":100,"Height":30}')

    assert json.loads(runtime.sizes[0]) == {"Width": 100, "Height": 30}
    assert json.loads(received[3])["status"] == "Success"


@pytest.mark.parametrize(
    ("command", "broken", "text"),
    [
        ("missing", False, "no such command"),
        ("cat", True, "the runtime's streaming endpoint is unreachable"),
        ("crash", False, "the runtime closed the connection"),
    ],
)
async def test_failure_of_the_runtime_is_the_status(pki, tmp_path, command, broken, text):
    async with node_of(pki, tmp_path) as (node, runtime):
        runtime.broken = broken
        async with websocket(node, f"/exec/default/web/main?command={command}&error=1", V5) as stream:
            received = await converse(stream)

    status = json.loads(received[3])
    assert (status["reason"], status["code"]) == ("InternalError", 500)
    assert status["message"].startswith(f"Internal error occurred: {text}")


async def test_command_ends_when_its_client_disconnects(pki, tmp_path):
    async with node_of(pki, tmp_path) as (node, runtime):
        async with websocket(node, EXEC, V5) as stream:
            await stream.send_bytes(b"\0a")
            await stream.receive()
        await eventually(lambda: runtime.ended == 1)


async def test_idle_websocket_is_closed(pki, tmp_path):
    async with node_of(pki, tmp_path, streaming_connection_idle_timeout=seconds(60)) as (node, runtime):
        async with websocket(node, EXEC, V5) as stream:
            await stream.send_bytes(b"\0a")
            assert [(await stream.receive()).data for _ in range(2)] == [b"\1", b"\1a"]
            await node.clock.advance(61)
            assert (await stream.receive()).type is aiohttp.WSMsgType.CLOSE
        await eventually(lambda: runtime.ended == 1)


async def test_earlier_release_passes_the_websocket_to_the_runtime(pki, tmp_path):
    async with node_of(pki, tmp_path, release=Release(1, 35)) as (node, _), websocket(node, EXEC, V5) as stream:
        received = await converse(stream)

    assert received == {2: b"WebSocket"}


async def test_port_is_forwarded_through_the_websocket(pki, tmp_path):
    async def echo(reader, writer):
        writer.write(b"got " + await reader.readexactly(5))
        writer.close()

    spdy, frames = Writer(), Reader()
    received: dict[int, bytes] = {}
    async with node_of(pki, tmp_path) as (node, runtime):
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        runtime.port = server.sockets[0].getsockname()[1]
        async with server, websocket(node, "/portForward/default/web", TUNNEL) as stream:
            headers = {"port": "80", "requestid": "0"}
            await stream.send_bytes(spdy.syn_stream(1, {**headers, "streamtype": "error"}))
            opened = spdy.syn_stream(3, {**headers, "streamtype": "data"}) + spdy.data(3, b"hello")
            await stream.send_bytes(opened[:7])  # Messages are not aligned with frames.
            await stream.send_bytes(opened[7:])
            while len(received.get(3, b"")) < 9:
                for frame in frames.feed((await stream.receive()).data):
                    if frame.kind == Kind.DATA:
                        received[frame.stream] = received.get(frame.stream, b"") + frame.data
        await eventually(lambda: runtime.ended == 1)

    assert stream.protocol == TUNNEL
    assert received == {3: b"got hello"}


async def test_unsupported_tunnel_is_rejected_before_the_upgrade(pki, tmp_path):
    async with node_of(pki, tmp_path) as (node, _):
        with pytest.raises(aiohttp.WSServerHandshakeError) as failure:
            async with websocket(node, "/portForward/default/web", "SPDY/3.1+other.k8s.io"):
                pass

    assert failure.value.status == 400


async def test_websocket_requires_permission_to_create(pki, tmp_path):
    async with node_of(pki, tmp_path) as (node, _):
        with pytest.raises(aiohttp.WSServerHandshakeError) as failure:
            async with websocket(node, EXEC, V5, tls=node.pki.client("viewer")):
                pass

    assert failure.value.status == 403
