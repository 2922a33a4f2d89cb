"""Establishment of connections to a server, directly or through an HTTP proxy."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import SplitResult

import aiohappyeyeballs

from nodeagent.apiclient.connection import Connection
from nodeagent.apiclient.route import Route
from nodeagent.apiclient.transport import ConnectionLost, reason_of

_PORTS = {"http": 80, "https": 443}
_CONNECT_SECONDS = 10.0
_NEXT_ADDRESS_SECONDS = 0.25
"""Time after which the next address of a name is tried too, as recommended by RFC 8305."""
_STEPS_TO_HANDSHAKE = 3
"""Iterations of the event loop from a new task until the handshake has started."""


async def dial(way: Route, context: ssl.SSLContext | None, server_name: str) -> Connection:
    """Return a new HTTP/1.1 connection, see :func:`open_streams`."""
    return Connection(*await open_streams(way, context, context, server_name))


async def open_streams(
    way: Route, context: ssl.SSLContext | None, proxy_context: ssl.SSLContext | None, server_name: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the streams of a new connection to the server.

    :param context: for TLS with the server.
    :param proxy_context: for TLS with a proxy.
    :param server_name: name in the server's certificate; empty for the host of its URL.
    :raises ConnectionLost: the connection or the TLS handshake failed, or the proxy rejected it.
    """
    name = server_name or way.server.hostname
    first = (way.proxy, proxy_context, way.proxy.hostname) if way.proxy.netloc else (way.server, context, name)
    reader, writer = await _open_first(*first)
    if way.proxy.netloc and not way.is_forwarded:
        try:
            await _open_tunnel(way, reader, writer)
            with _failures_to_connect(way.server):
                await writer.start_tls(context or ssl.create_default_context(), server_hostname=name)
        except BaseException:
            writer.transport.abort()
            raise
    return reader, writer


async def _open_first(
    url: SplitResult, context: ssl.SSLContext | None, name: str | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the streams of a connection to *url*, encrypted if its scheme requires it."""
    with _failures_to_connect(url):
        encryption = (context or ssl.create_default_context()) if url.scheme == "https" else None
        return await _open(await _connect(url), encryption, name if encryption else None)


async def _connect(url: SplitResult) -> socket.socket:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_CONNECT_SECONDS):
        addresses = await loop.getaddrinfo(*_address(url), type=socket.SOCK_STREAM)
        sock = await aiohappyeyeballs.start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS)
    _enable_keepalive(sock)
    return sock


def _enable_keepalive(sock: socket.socket) -> None:
    """Enable TCP keepalive probes, so that an unreachable server is detected within a minute."""
    with suppress(OSError):  # Optional: without it, the limits of the requests still apply.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


async def _open(
    sock: socket.socket, encryption: ssl.SSLContext | None, name: str | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the streams of *sock*, which is closed on an error or a cancellation.

    asyncio does not close a connection whose handshake is cancelled before it has started, so it starts first.
    """
    opening = asyncio.create_task(asyncio.open_connection(sock=sock, ssl=encryption, server_hostname=name))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        for _ in range(_STEPS_TO_HANDSHAKE):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            opening.result()[1].transport.abort()
        raise


async def _open_tunnel(way: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Request a connection to the server from the proxy.

    :raises ConnectionLost: the proxy rejected it, or its connection failed.
    """
    host, port = _address(way.server)
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    headers = {"Host": target, **way.proxy_headers()}
    with _failures_to_connect(way.proxy):
        response = await Connection(reader, writer).send("CONNECT", target, headers)
    if not 200 <= response.status < 300:
        raise ConnectionLost(f"proxy {way.proxy.hostname}: CONNECT {target} failed with status {response.status}")


def _address(url: SplitResult) -> tuple[str, int]:
    return url.hostname or "", url.port or _PORTS.get(url.scheme, 0)


@contextmanager
def _failures_to_connect(url: SplitResult) -> Iterator[None]:
    """Convert errors to :class:`ConnectionLost` with address and reason."""
    try:
        yield
    except OSError as error:  # Includes errors of TLS, and a time limit.
        host, port = _address(url)
        raise ConnectionLost(f"cannot connect to {host}:{port}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verification failed: {error.verify_message or error}"
    if isinstance(error, ssl.SSLError):
        return reason_of(error)
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    if isinstance(error, TimeoutError):
        return f"no connection within {_CONNECT_SECONDS:g} s"
    return reason_of(error) or type(error).__name__
