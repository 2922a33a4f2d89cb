"""Connections to node agents: their addresses, client certificate and CA."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from apiserver_stub.apimachinery.objects import Object, decode, dig
from apiserver_stub.apimachinery.status import ApiError, internal, not_found
from apiserver_stub.egress.dialing import Dialer, DirectDialer, client_context, connection_error
from apiserver_stub.nodes.addressing import is_port
from apiserver_stub.nodes.client_certificate import client_certificate_files
from apiserver_stub.nodes.endpoint import Endpoint
from nodeagent.base.structs import Struct
from nodeagent.base.tls import TlsError

if TYPE_CHECKING:
    import aiohttp

    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

DEFAULT_PORT = 10250
_READ_BYTES = 256 * 1024
_CALL_SECONDS = 30.0
_MAX_REPLY_BYTES = 64 * 1024
P = TypeVar("P", bound=asyncio.BaseProtocol)


class Unreachable(ApiError):
    """The 503 for a proxied request whose backend does not respond; *why* is the connection error."""

    def __init__(self, why: str) -> None:
        super().__init__(503, "ServiceUnavailable", f"error trying to reach service: {why}")
        self.why = why


class DialFailed(Unreachable):
    """The 500 for an upgrade whose backend cannot be dialed."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.code, self.reason, self.message = 500, "", f"error dialing backend: {why}"


class NotUpgraded(Unreachable):
    """The 500 for an upgrade to which the backend responds with neither the upgrade nor an error."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status code {status}")
        self.code, self.reason, self.message = 500, "", f"invalid upgrade response: status code {status}"


class NodeAgentSettings(Struct, frozen=True):
    """Connections to node agents."""

    address_types: Sequence[str]
    """Types of node addresses, most preferred first."""
    timeout_seconds: float
    """Time limit for establishing a connection."""
    own_authorities: Path
    """Directory of the generated client certificate, which is used if none is configured."""
    certificate_authority: Path | None = None
    """CA bundle that verifies agents; without one they are not verified."""
    client_certificate: Path | None = None
    client_key: Path | None = None


class NodeAgents:
    """Addresses of node agents, and connections to them.

    :raises TlsError: a certificate file is invalid.
    """

    def __init__(self, settings: NodeAgentSettings, store: Store, dialer: Dialer | None = None) -> None:
        self._store = store
        self._types = settings.address_types
        self._seconds = settings.timeout_seconds
        self._dialer = dialer or DirectDialer()
        ca_bundle = settings.certificate_authority
        certificate, key = settings.client_certificate, settings.client_key
        self.client_authority: Path | None = None
        """CA certificate for agents to verify this server's client certificate; ``None`` if one is configured."""
        if certificate is None or key is None:
            certificate, key, self.client_authority = client_certificate_files(settings.own_authorities)
        try:
            self._unverified = client_context(None, certificate, key, verify=False)
            self._trusting = client_context(ca_bundle, certificate, key) if ca_bundle is not None else self._unverified
            self.plain_tls = client_context(None, None, None, verify=False)
        except OSError as error:  # covers ssl.SSLError
            path = error.filename or next((file for file in (ca_bundle, certificate, key) if not _readable(file)), "")
            why = f"open {path}: {(error.strerror or str(error)).lower()}" if path else str(error)
            raise TlsError(f'problem initializing API group "" : {why}') from error

    async def endpoint_of(self, node_name: str, *, kind: str = "nodes", verify: bool = True) -> Endpoint:
        """Return the endpoint of a node's agent.

        :param kind: resource named in the 404.
        :raises ApiError: 404, the node does not exist; 500, it has no address of a preferred type; 503, its port is
            invalid.
        """
        node = self.node(node_name, kind)
        port = dig(node, ("status", "daemonEndpoints", "kubeletEndpoint", "Port")) or DEFAULT_PORT
        if not is_port(str(port)):  # The status of a node is not validated.
            raise Unreachable(f"dial tcp: address {port}: invalid port")
        host = await self._choose(preferred(node, self._types), port)
        return Endpoint(host, port, self._trusting if verify else self._unverified)

    def node(self, name: str, kind: str = "nodes") -> Object:
        """Return a node.

        :raises ApiError: 404, the node does not exist.
        """
        record = self._store.collection("core/nodes").get(name)
        if record is None:
            raise not_found("", kind, name)
        found: Object = decode(record.data)
        return found

    async def connect(self, factory: Callable[[], P], endpoint: Endpoint) -> P:
        """Return a protocol of *factory*, connected.

        :raises Unreachable: the connection failed or timed out (spec: opt.nodeagent-timeout).
        """
        try:
            async with asyncio.timeout(self._seconds or None):
                return await self._dialer.connect(
                    factory, endpoint.host, endpoint.port, endpoint.tls, endpoint.server_name
                )
        except (OSError, TimeoutError) as error:
            raise Unreachable(connection_error(error, endpoint.host, endpoint.port)) from error

    @asynccontextmanager
    async def session(self, endpoint: Endpoint) -> AsyncIterator[aiohttp.ClientSession]:
        """Yield an HTTP client for *endpoint* that follows no redirects and adds no default headers."""
        import aiohttp  # Deferred: many modules, not before the first connection to a node.

        from apiserver_stub.nodes.connector import AgentConnector

        async with aiohttp.ClientSession(
            connector=AgentConnector(self.connect, endpoint),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            read_bufsize=_READ_BYTES,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        ) as session:
            yield session

    async def call(
        self, node_name: str, method: str, path: str, body: bytes = b"", *, max_reply_bytes: int = _MAX_REPLY_BYTES
    ) -> tuple[int, bytes]:
        """Send a request with a JSON body to the agent of a node and return the status and the body of the response.

        :raises ApiError: the node does not exist or has no address.
        :raises Unreachable: the agent cannot be reached, does not respond in time, or sends a larger response.
        """
        import aiohttp  # Deferred: see session.

        endpoint = await self.endpoint_of(node_name)
        headers = {"Content-Type": "application/json"} if body else {}
        try:
            async with asyncio.timeout(_CALL_SECONDS), self.session(endpoint) as session:
                url = endpoint.origin + path
                async with session.request(method, url, data=body or None, headers=headers) as response:
                    data = b""
                    async for piece in response.content.iter_any():
                        data += piece
                        if len(data) > max_reply_bytes:
                            raise Unreachable(f"response exceeds {max_reply_bytes} bytes")
                    return response.status, data
        except TimeoutError as error:
            raise Unreachable(f"no response within {_CALL_SECONDS:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error

    @property
    def connects_by_name(self) -> bool:
        """True if an egress proxy resolves the names of nodes."""
        return self._dialer.by_name

    async def _choose(self, hosts: Sequence[str], port: int) -> str:
        """Return the first of *hosts* whose name can be resolved, or the last one."""
        for host in hosts[:-1]:
            if self._dialer.by_name:
                return host
            try:
                async with asyncio.timeout(self._seconds or None):
                    await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except (socket.gaierror, TimeoutError, UnicodeError):
                continue
            return host
        return hosts[-1]


def preferred(node: Object, types: Sequence[str]) -> list[str]:
    """Return the addresses of *node* in order of preference.

    :raises ApiError: 500, none has a preferred type (spec: opt.nodeagent-preferred-address-types).
    """
    addresses = dig(node, ("status", "addresses")) or []
    found = [item["address"] for kind in types for item in addresses if item.get("type") == kind]
    if not found:
        listed = " ".join(f"{{{item.get('type')} {item.get('address')}}}" for item in addresses)
        raise internal(f"no preferred addresses found; known addresses: [{listed}]")
    return found


def _readable(path: Path | None) -> bool:
    if path is None:
        return True
    try:
        path.read_bytes()
    except OSError:
        return False
    return True
