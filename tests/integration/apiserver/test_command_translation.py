"""Tests for commands over WebSockets, translated to SPDY streams of a node agent."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest

from nodeagent.base.release import Release
from nodeagent.base.spdy import Kind, Reader, Writer
from tests.integration.kubectl import KUBECTLS, kubectl_of
from tests.integration.programs import free_port
from tests.integration.server.conftest import Pki, pki
from tests.integration.server.test_websockets import SpdyRuntime, converse, node_of

from .etcd import serving
from .test_limits import Client
from .test_tracing import create, node

__all__ = ["pki"]

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
POD = "/api/v1/namespaces/default/pods/web"
RELEASE = Release(1, 29)
"""A release whose agents do not translate themselves."""


@asynccontextmanager
async def cluster(
    pki: Pki, tmp_path: Path, *, translates: bool = True, release: Release = RELEASE, features: tuple[str, ...] = ()
) -> AsyncIterator[tuple[Client, SpdyRuntime]]:
    """Yield a client of an API server with one node and one pod, and the runtime of the node.

    :param features: features that the node declares.
    """
    pki.client("admin")
    options = (
        f"--nodeagent-client-certificate={pki.directory / 'admin.crt'}",
        f"--nodeagent-client-key={pki.directory / 'admin.key'}",
        f"--feature-gates=TranslateStreamCloseWebsocketRequests={str(translates).lower()}",
        f"--compatibility-version={release}",
    )
    async with (
        node_of(pki, tmp_path, release=release if features else RELEASE) as (agent, runtime),
        serving(tmp_path / "server", *options) as client,
    ):
        found = node(agent.server.port)
        found["status"]["declaredFeatures"] = list(features)
        await create(client, "/api/v1/nodes", found)
        spec = {"nodeName": "n", "containers": [{"name": "main", "image": "i"}]}
        await create(client, "/api/v1/namespaces/default/pods", {"metadata": {"name": "web"}, "spec": spec})
        yield client, runtime


@asynccontextmanager
async def command(
    client: Client, kind: str, *protocols: str, **query: Any
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    tls = ssl.create_default_context(cafile=str(client.running.ca_file))
    url = f"{client.running.url}{POD}/{kind}?{urlencode(query, doseq=True)}"
    headers = {"Authorization": f"Bearer {client.running.token}"}
    async with (
        asyncio.timeout(20),
        aiohttp.ClientSession(headers=headers) as session,
        session.ws_connect(url, protocols=protocols, ssl=tls) as stream,
    ):
        yield stream


CAT = {"command": "cat", "stdin": "1", "stdout": "1", "stderr": "1"}


@pytest.mark.row("gate.TranslateStreamCloseWebsocketRequests")
@pytest.mark.parametrize("code", [0, 7])
async def test_client_closes_its_input_and_receives_the_exit_code(pki: Pki, tmp_path: Path, code: int) -> None:
    async with cluster(pki, tmp_path, translates=True) as (client, runtime):
        runtime.exit_code = code
        async with command(client, "exec", V4, V5, **CAT) as stream:
            first = await stream.receive()
            received = await converse(stream, b"\0hello", b"\0" + b"x" * 3_000_000, b"\xff\0")
        page = (await client("GET", "/metrics"))[2].decode()

    assert 'apiserver_stream_translator_requests_total{code="200"} 1\n' in page
    assert stream.protocol == V5
    assert first.data == b"\1"
    assert received[1] == b"hello" + b"x" * 3_000_000
    assert received[2] == b"closed"
    status = json.loads(received[3])
    if not code:
        assert status == {"metadata": {}, "status": "Success"}
    else:
        assert status["reason"] == "NonZeroExitCode"
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


@pytest.mark.row("gate.TranslateStreamCloseWebsocketRequests")
async def test_terminal_size_is_sent_to_the_agent(pki: Pki, tmp_path: Path) -> None:
    async with (
        cluster(pki, tmp_path, translates=True) as (client, runtime),
        command(client, "attach", V5, stdin="1", stdout="1", tty="1") as stream,
    ):
        received = await converse(stream, b'\4{"Width":100,"Height":30}')

    assert json.loads(runtime.sizes[0]) == {"Width": 100, "Height": 30}
    assert json.loads(received[3])["status"] == "Success"


@pytest.mark.row("gate.TranslateStreamCloseWebsocketRequests")
@pytest.mark.parametrize(("translates", "protocol"), [(False, V5), (True, V4)])
async def test_other_websockets_are_proxied_unchanged(
    pki: Pki, tmp_path: Path, translates: bool, protocol: str
) -> None:
    async with (
        cluster(pki, tmp_path, translates=translates) as (client, _),
        command(client, "exec", protocol, **CAT) as stream,
    ):
        received = await converse(stream)

    assert received == {2: b"WebSocket"}


async def test_failure_of_the_agent_is_the_status(pki: Pki, tmp_path: Path) -> None:
    async with cluster(pki, tmp_path, translates=True) as (client, _):
        async with command(client, "exec", V5, **CAT | {"command": "missing"}) as stream:
            missing = await converse(stream)
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": free_port()}}}
        found = json.loads((await client("GET", "/api/v1/nodes/n"))[2])
        assert (await client("PUT", "/api/v1/nodes/n/status", json=found | {"status": status}))[0] == 200
        async with command(client, "exec", V5, **CAT) as stream:
            unreachable = await converse(stream)

        page = (await client("GET", "/metrics"))[2].decode()

    assert 'apiserver_stream_translator_requests_total{code="500"} 2\n' in page
    assert json.loads(missing[3])["message"] == "Internal error occurred: no such command"
    assert json.loads(unreachable[3])["message"].startswith("Internal error occurred: error dialing backend: dial tcp")


async def test_command_ends_when_its_client_disconnects(pki: Pki, tmp_path: Path) -> None:
    async with cluster(pki, tmp_path, translates=True) as (client, runtime):
        async with command(client, "exec", V5, **CAT) as stream:
            await stream.send_bytes(b"\0x")
            await stream.receive()
        async with asyncio.timeout(10):
            while not runtime.ended:
                await asyncio.sleep(0.02)


@pytest.mark.row("gate.TranslateStreamCloseWebsocketRequests")
@pytest.mark.parametrize("version", KUBECTLS)
async def test_kubectl_uses_websockets(pki: Pki, tmp_path: Path, version: str) -> None:
    async with cluster(pki, tmp_path, translates=True) as (client, runtime):
        runtime.exit_code = 7
        with kubectl_of(version) as minor:
            environment = {
                **os.environ,
                "KUBECONFIG": str(client.running.kubeconfig),
                "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true",
                "HOME": str(tmp_path),
            }
            verbosity = 9 if minor >= 29 else 1  # Older releases exit with 255 from level 2 on.
            process = await asyncio.create_subprocess_exec(
                "kubectl",
                f"-v={verbosity}",
                "exec",
                "-i",
                "web",
                "--",
                "cat",
                env=environment,
                stdin=-1,
                stdout=-1,
                stderr=-1,
            )
            output, errors = await asyncio.wait_for(process.communicate(b"x" * 300_000), 60)

    assert output == b"x" * 300_000, errors
    assert process.returncode == 7, errors
    assert (b"websocket.go" in errors) == (minor >= 29)
    assert b"fallback" not in errors


NEWEST, TUNNEL = Release(1, 36), "SPDY/3.1+portforward.k8s.io"


@pytest.mark.parametrize(("features", "count"), [((), 1), (("ExtendWebSocketsToKubelet",), 0)])
async def test_agents_that_declare_it_receive_websockets_unchanged(
    pki: Pki, tmp_path: Path, features: tuple[str, ...], count: int
) -> None:
    async with cluster(pki, tmp_path, release=NEWEST, features=features) as (client, _):
        async with command(client, "exec", V5, **CAT) as stream:
            received = await converse(stream, b"\0hello", b"\xff\0")
        page = (await client("GET", "/metrics"))[2].decode()

    assert received[1] == b"hello"
    assert json.loads(received[3])["status"] == "Success"
    assert page.count('apiserver_stream_translator_requests_total{code="200"} 1\n') == count


@pytest.mark.parametrize("features", [(), ("ExtendWebSocketsToKubelet",)])
async def test_port_is_forwarded_through_a_websocket(pki: Pki, tmp_path: Path, features: tuple[str, ...]) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"got " + await reader.readexactly(5))
        writer.close()

    async with cluster(pki, tmp_path, release=NEWEST, features=features) as (client, runtime):
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        runtime.port = server.sockets[0].getsockname()[1]
        async with server, command(client, "portforward", TUNNEL) as stream:
            received = await forward(stream, b"hello", 9)

    assert stream.protocol == TUNNEL
    assert received == b"got hello"


async def forward(stream: aiohttp.ClientWebSocketResponse, data: bytes, size: int) -> bytes:
    """Send *data* to port 80 through the SPDY connection in *stream*, and return *size* bytes of the response."""
    spdy, frames, received = Writer(), Reader(), b""
    headers = {"port": "80", "requestid": "0"}
    await stream.send_bytes(spdy.syn_stream(1, {**headers, "streamtype": "error"}))
    await stream.send_bytes(spdy.syn_stream(3, {**headers, "streamtype": "data"}) + spdy.data(3, data))
    while len(received) < size:
        for frame in frames.feed((await stream.receive()).data):
            if frame.kind == Kind.DATA and frame.stream == 3:
                received += frame.data
    return received


async def test_tunnel_to_an_unreachable_agent_is_rejected(pki: Pki, tmp_path: Path) -> None:
    async with cluster(pki, tmp_path, release=NEWEST) as (client, _):
        found = json.loads((await client("GET", "/api/v1/nodes/n"))[2])
        found["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": free_port()}}
        assert (await client("PUT", "/api/v1/nodes/n/status", json=found))[0] == 200
        with pytest.raises(aiohttp.WSServerHandshakeError) as failure:
            async with command(client, "portforward", TUNNEL):
                pass

    assert failure.value.status == 500
