"""Tests for the ways to reach an API server: proxies, another server name, credentials of an exec plugin."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeagent.apiclient import Client, connect
from nodeagent.apiclient.server_version import query_server_version
from nodeagent.base.aio import SystemClock
from nodeagent.base.tls import KeyPair, issue
from nodeagent.contracts.api import Resource, WatchType
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ApiError, ApiUnavailable
from nodeagent.testing.context import make_config
from tests.integration.programs import ApiServer

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


class Proxy:
    """HTTP proxy that only supports CONNECT, and connects every name to the loopback interface."""

    def __init__(self) -> None:
        self.targets: list[str] = []
        self.authorization: set[str] = set()
        self.protocols: set[str | None] = set()
        """Protocols that TLS has negotiated with the proxy."""
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serve(self, context: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        yield self
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split()
        assert method == "CONNECT"
        self.targets.append(target)
        if (encryption := writer.get_extra_info("ssl_object")) is not None:
            self.protocols.add(encryption.selected_alpn_protocol())
        self.authorization |= {line.partition(": ")[2] for line in head if line.startswith("Proxy-Authorization")}
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(_copy(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        with closing(sink):
            while piece := await source.read(65536):
                sink.write(piece)
    finally:
        await sink.wait_closed()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    async with Proxy().serve() as serving:
        yield serving


@pytest.fixture(autouse=True)
def no_proxy_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    yield


class Kubeconfig:
    """Kubeconfig of the administrator, with changes."""

    def __init__(self, server: ApiServer, path: Path) -> None:
        self.path = path
        self._document = yaml.safe_load(Path(server.facts["kubeconfig"]).read_text())
        self.token = server.facts["token"]
        self.port = int(self.cluster["server"].rpartition(":")[2])

    @property
    def cluster(self) -> dict[str, Any]:
        return self._document["clusters"][0]["cluster"]

    def connect(self, user: Mapping[str, Any] | None = None) -> Client:
        """Return a client of the changed file."""
        if user is not None:
            self._document["users"][0]["user"] = user
        self.path.write_text(yaml.safe_dump(self._document))
        config = make_config(platform_api_qps=1000, platform_api_burst=1000)
        return connect(self.path, config, SystemClock())

    def server_version(self) -> str:
        return query_server_version(NodeSettings(kubeconfig=str(self.path), cert_dir="/absent"), 20)


@pytest.fixture
def access(server: ApiServer, tmp_path: Path) -> Kubeconfig:
    return Kubeconfig(server, tmp_path / "kubeconfig")


async def check(client: Client) -> None:
    assert (await client.get(NAMESPACES, "default", into=dict))["metadata"]["name"] == "default"


async def check_watches(client: Client) -> None:
    async with AsyncExitStack() as opened:
        for _ in range(3):
            watch = client.watch(NAMESPACES, into=dict, resource_version="0")
            events = await opened.enter_async_context(aclosing(watch))  # type: ignore[type-var]
            assert (await anext(events)).type == WatchType.ADDED


async def test_proxy_of_the_kubeconfig_is_used_with_its_password(access: Kubeconfig, proxy: Proxy) -> None:
    access.cluster["proxy-url"] = f"http://user:secret@127.0.0.1:{proxy.port}"

    client = access.connect()
    await check(client)
    version = await asyncio.to_thread(access.server_version)
    await client.close()

    assert proxy.targets == [f"127.0.0.1:{access.port}"] * 2
    assert proxy.authorization == {f"Basic {base64.b64encode(b'user:secret').decode()}"}
    assert version.startswith("v1.")


async def test_proxy_with_tls_is_verified_with_the_certificate_authority(
    access: Kubeconfig, server: ApiServer, tmp_path: Path
) -> None:
    certificates = server.data / "certs"
    authority = KeyPair((certificates / "ca.crt").read_bytes(), (certificates / "ca.key").read_bytes())
    pair = issue(authority, "proxy", names=["127.0.0.1"], server=True)
    (tmp_path / "proxy.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "proxy.pem")
    context.set_alpn_protocols(["h2", "http/1.1"])

    async with Proxy().serve(context) as proxy:
        access.cluster["proxy-url"] = f"https://127.0.0.1:{proxy.port}"
        client = access.connect()
        await check(client)
        await check_watches(client)
        await client.close()

    assert proxy.targets == [f"127.0.0.1:{access.port}"] * 2
    assert proxy.protocols == {None}


async def test_watches_share_a_connection_through_a_proxy(access: Kubeconfig, proxy: Proxy) -> None:
    access.cluster["proxy-url"] = f"http://127.0.0.1:{proxy.port}"

    client = access.connect()
    await check_watches(client)
    await client.close()

    assert proxy.targets == [f"127.0.0.1:{access.port}"]


async def test_proxy_of_the_environment_is_used_except_for_no_proxy(
    access: Kubeconfig, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
    access.cluster["server"] = f"https://api.invalid:{access.port}"
    access.cluster["tls-server-name"] = "localhost"

    client = access.connect()
    await check(client)
    await client.close()
    monkeypatch.setenv("NO_PROXY", ".invalid")
    direct = access.connect()

    with pytest.raises(ApiUnavailable, match=r"cannot connect to api\.invalid"):
        await direct.get(NAMESPACES, "default", into=dict)
    await direct.close()
    assert proxy.targets == [f"api.invalid:{access.port}"]


async def test_server_name_of_the_kubeconfig_is_verified(access: Kubeconfig) -> None:
    access.cluster["tls-server-name"] = "another.example.com"

    client = access.connect()

    with pytest.raises(ApiUnavailable, match=r"(?i)certificate"):
        await client.get(NAMESPACES, "default", into=dict)
    await client.close()


async def test_plugin_provides_a_token_and_replaces_a_rejected_one(access: Kubeconfig, tmp_path: Path) -> None:
    document = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    response = tmp_path / "response"
    response.write_text(json.dumps({**document, "status": {"token": "wrong"}}))
    entry = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "cat",
        "args": [str(response)],
        "interactiveMode": "IfAvailable",
    }
    client = access.connect({"exec": entry})

    with pytest.raises(ApiError, match="401"):
        await client.get(NAMESPACES, "default", into=dict)
    response.write_text(json.dumps({**document, "status": {"token": access.token}}))

    await check(client)
    await client.close()
    assert access.server_version().startswith("v1.")
