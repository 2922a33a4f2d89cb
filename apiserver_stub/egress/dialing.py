"""Outgoing connections: direct, or through an HTTP CONNECT proxy."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from nodeagent.base.key_material import bare_context
from nodeagent.base.structs import Struct

_MAX_HEAD_BYTES = 16 * 1024
_END_OF_HEAD = b"\r\n\r\n"

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Dialer(Protocol):
    """Opens connections."""

    @property
    def by_name(self) -> bool:
        """True if the remote end resolves names."""
        ...

    async def connect(
        self, factory: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None, server_name: str = ""
    ) -> P:
        """Return a connected protocol of *factory*, over TLS with *tls*.

        :param server_name: name that the certificate must contain, if not *host*.
        :raises OSError: the connection failed.
        """
        ...

    async def close(self) -> None:
        """Close what the connections share."""
        ...


class DirectDialer:
    """Connects directly."""

    by_name = False

    async def connect(
        self, factory: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None, server_name: str = ""
    ) -> P:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(
            factory, host, port, ssl=tls, server_hostname=(server_name or host) if tls is not None else None
        )
        return protocol

    async def close(self) -> None:
        """Nothing is shared."""


class HttpConnectDialer(Struct, frozen=True):
    """Connects through an HTTP CONNECT proxy at a TCP address or a Unix socket."""

    host: str = ""
    port: int = 0
    socket_path: str = ""
    tls: ssl.SSLContext | None = None
    """TLS context of the connection to the proxy."""
    by_name: bool = True

    async def connect(
        self, factory: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None, server_name: str = ""
    ) -> P:
        loop = asyncio.get_running_loop()
        request = _ConnectRequest(host_and_port(host, port))
        if self.socket_path:
            transport, _ = await loop.create_unix_connection(lambda: request, self.socket_path)
        else:
            name = self.host if self.tls is not None else None
            transport, _ = await loop.create_connection(
                lambda: request, self.host, self.port, ssl=self.tls, server_hostname=name
            )
        try:
            rest = await request.allowed
            protocol = factory()
            inner: asyncio.BaseTransport = transport
            if tls is not None:
                encrypted = await loop.start_tls(
                    transport, cast(Any, protocol), tls, server_hostname=server_name or host
                )
                if encrypted is None:
                    raise ConnectionResetError("closed during the handshake")
                inner = encrypted
            else:
                transport.set_protocol(protocol)
        except BaseException:
            transport.abort()
            raise
        protocol.connection_made(inner)
        if rest:
            cast(asyncio.Protocol, protocol).data_received(rest)
        return protocol

    async def close(self) -> None:
        """Nothing is shared."""


class _ConnectRequest(asyncio.Protocol):
    """Sends CONNECT and waits for the response; :attr:`allowed` resolves to the data received after it."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._held = bytearray()
        self.allowed: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        head = f"CONNECT {self._target} HTTP/1.1\r\nHost: {self._target}\r\n\r\n"
        cast(asyncio.Transport, transport).write(head.encode())

    def data_received(self, data: bytes) -> None:
        if self.allowed.done():
            return
        self._held += data
        if _END_OF_HEAD not in self._held:
            if len(self._held) > _MAX_HEAD_BYTES:
                self._fail("sent response headers that are too long")
            return
        head, _, rest = bytes(self._held).partition(_END_OF_HEAD)
        line = head.split(b"\r\n", 1)[0].decode(errors="replace")
        words = line.split(" ", 2)
        if len(words) > 1 and words[0].startswith("HTTP/1.") and words[1] == "200":
            self.allowed.set_result(rest)
        else:
            self._fail(f"responded with {line[:200]!r}")

    def connection_lost(self, exc: BaseException | None) -> None:
        self._fail("closed the connection")

    def _fail(self, reason: str) -> None:
        if not self.allowed.done():
            self.allowed.set_exception(ConnectionRefusedError(f"the proxy {reason}"))


def host_and_port(host: str, port: int) -> str:
    """Return an address with a port; an IPv6 address is bracketed."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def client_context(
    ca_bundle: Path | None, certificate: Path | None, key: Path | None, *, verify: bool = True
) -> ssl.SSLContext:
    """Return a client context that trusts *ca_bundle*, or the system's CAs, and presents *certificate*.

    The system's CAs are not read if nothing is verified.

    :raises OSError: a file cannot be read or is invalid.
    """
    trusts_system = ca_bundle is None and verify
    context = ssl.create_default_context() if trusts_system else bare_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_bundle is not None:
        context.load_verify_locations(ca_bundle)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate, key, password=str)  # an encrypted key fails instead of prompting
    return context


def connection_error(error: OSError | TimeoutError, host: str, port: int) -> str:
    """Return the message of a connection error, in kube-apiserver's wording."""
    address = host_and_port(host, port)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"tls: {error.reason}: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"tls: {error.reason or error}"
    if isinstance(error, TimeoutError):
        return f"dial tcp {address}: i/o timeout"
    if error.errno is not None and error.errno > 0:
        return f"dial tcp {address}: connect: {os.strerror(error.errno).lower()}"
    return f"dial tcp {address}: {error}"
