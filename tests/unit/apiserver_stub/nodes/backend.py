"""Backends of proxied requests in memory: node agents, pods and services."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from multidict import CIMultiDict

from apiserver_stub.apimachinery.request import Query, parse_path
from apiserver_stub.egress.dialing import DirectDialer, client_context
from apiserver_stub.nodes import agents as agents_module
from apiserver_stub.nodes.agents import NodeAgents
from apiserver_stub.nodes.client_certificate import generate_client_certificate
from apiserver_stub.nodes.stream import Stream
from apiserver_stub.options import parse
from apiserver_stub.server.outgoing import node_agent_settings
from apiserver_stub.transport.http import Headers
from tests.unit.apiserver_stub.authz.conftest import Memory
from tests.unit.apiserver_stub.transport.fake_http import FakeHttpRequest
from tests.unit.apiserver_stub.transport.test_message_socket import Pausing

Object = dict[str, Any]
_AUTHORITIES = tempfile.TemporaryDirectory(prefix="client-certificate-")


@dataclass
class Received:
    """Request that a backend received."""

    method: str
    target: str
    headers: CIMultiDict[str]
    body: bytes


@dataclass
class Dialed:
    """Address to which a connection was opened."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    server_name: str


class Backend(DirectDialer):
    """Dialer whose connections all lead to a server that sends *response*, and then waits for the client to close.

    :param error: fails each connection.
    :param closes: the server closes the connection after the response.
    """

    def __init__(self, response: bytes = b"", *, error: OSError | None = None, closes: bool = False) -> None:
        self.response, self.error, self.closes = response, error, closes
        self.dialed: list[Dialed] = []
        self.requests: list[Received] = []
        self.writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(
        self, factory: Callable[[], Any], host: str, port: int, tls: ssl.SSLContext | None, server_name: str = ""
    ) -> Any:
        self.dialed.append(Dialed(host, port, tls, server_name))
        if self.error is not None:
            raise self.error
        ours, theirs = socket.socketpair()
        _, protocol = await asyncio.get_running_loop().create_connection(factory, sock=ours)
        reader, writer = await asyncio.open_connection(sock=theirs)
        self.writers.append(writer)
        self._tasks.append(asyncio.ensure_future(self._serve(reader, writer)))
        return protocol

    @property
    def request(self) -> Received:
        """The only request."""
        (found,) = self.requests
        return found

    async def end(self) -> None:
        for writer in self.writers:
            writer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.rstrip().split("\r\n")
        headers = CIMultiDict((name, value) for name, _, value in (line.partition(": ") for line in lines))
        body = await reader.readexactly(int(headers.get("Content-Length", "0")))
        method, target, _ = first.split(" ")
        self.requests.append(Received(method, target, headers, body))
        writer.write(self.response)
        await writer.drain()
        if self.closes:
            writer.close()
        else:
            await reader.read()


class Client(Pausing):
    """Transport to a client that calls :attr:`on_close` after a close frame."""

    on_close: Callable[[], None] | None = None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: written data is not sent."""

    def write(self, data: Any) -> None:
        super().write(data)
        if data[:1] == b"\x88" and self.on_close is not None:
            asyncio.get_running_loop().call_soon(self.on_close)


class ConnectedRequest(FakeHttpRequest):
    """Request whose connection stays open after an upgrade."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.line = Client()
        self.protocol: Any = None

    def upgrade(self, protocol: asyncio.BaseProtocol, headers: Headers | None = None) -> None:
        super().upgrade(protocol, headers)
        self.protocol = protocol
        protocol.connection_made(self.line)


def reply(status: str, body: bytes = b"", **headers: str) -> bytes:
    """Return a response with a body; underscores in names of *headers* are hyphens."""
    fields = {"Content-Length": str(len(body)), **{name.replace("_", "-"): text for name, text in headers.items()}}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items())]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode() + body


def node_agents(backend: DirectDialer, store: Memory, *options: str) -> NodeAgents:
    """Return the agents of the nodes in *store*; connections to them lead to *backend*."""
    settings = node_agent_settings(parse([f"--data-dir={_data_directory()}", *options]))
    with mock.patch.object(agents_module, "client_context", _cached_context):
        return NodeAgents(settings, store, backend)  # type: ignore[arg-type]


_cached_context = functools.cache(client_context)
"""Cached, as reading the CA certificates of the system takes long."""


@functools.cache
def _data_directory() -> Path:
    directory = Path(_AUTHORITIES.name)
    generate_client_certificate(node_agent_settings(parse([f"--data-dir={directory}"])).own_authorities)
    return directory


@asynccontextmanager
async def serving(response: bytes = b"", **options: Any) -> AsyncIterator[Backend]:
    """Yield a backend, and close its connections in the end."""
    backend = Backend(response, **options)
    try:
        yield backend
    finally:
        await backend.end()


def stream_to(
    backend: DirectDialer,
    store: Memory,
    target: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    content: bytes = b"",
    *,
    options: tuple[str, ...] = (),
) -> Stream:
    """Return a request whose response is a stream from *backend*."""
    http = ConnectedRequest(method, target, headers, content)
    query = Query(target.partition("?")[2])
    agents: Any = node_agents(backend, store, *options)
    kept: Any = store
    return Stream(http, parse_path(method, http.path, query), query, agents, kept)


def node(name: str = "a", *, port: int | None = 10250, **status: Any) -> Object:
    """Return a node with an agent."""
    endpoints = {} if port is None else {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    addresses = [{"type": "InternalIP", "address": "192.0.2.1"}]
    return {"metadata": {"name": name}, "status": {**endpoints, "addresses": addresses, **status}}


def pod(name: str = "web", *, on: str | None = "a", ip: str = "192.0.2.7", ports: Any = None, **spec: Any) -> Object:
    """Return a pod of the namespace ``default`` with a container ``c``."""
    container: Object = {"name": "c", **({} if ports is None else {"ports": ports})}
    where = {} if on is None else {"nodeName": on}
    status = {"podIP": ip, "podIPs": [{"ip": ip}]} if ip else {}
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "spec": {**where, "containers": [container], **spec}, "status": status}


def store_of(**objects: Any) -> Memory:
    """Return a store with *objects*: lists by the plural of the core group."""
    store = Memory()
    for plural, items in objects.items():
        for item in items:
            store.put(f"core/{plural}", item)
    return store
