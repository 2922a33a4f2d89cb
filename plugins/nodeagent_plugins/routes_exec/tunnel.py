"""Tunnel between a client and the runtime's streaming endpoint.

The runtime must respond with status 101; redirects are not followed.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from aiohttp import web

from nodeagent.base.aio import Clock
from nodeagent.base.tunnel import End, MalformedResponseHead, Tunnel, without_token
from nodeagent.contracts.server import SENT_BYTES
from nodeagent_plugins.routes_exec.hijack import ConnectionHijacked, hijack

CONNECT_SECONDS = 10.0
HEAD_SECONDS = 30.0
_KEPT_TO_OURSELVES = frozenset({b"authorization", b"cookie", b"host", b"proxy-authorization"})


async def join(request: web.Request, url: str, clock: Clock, idle_seconds: float) -> web.StreamResponse:
    """Forward the request to *url* and copy bytes until one side closes; return the result of the request.

    :param idle_seconds: maximum time without data in both directions; 0 disables the limit
        (spec: config.streamingConnectionIdleTimeout).
    :raises web.HTTPException: the runtime is unreachable or rejects the request.
    """
    tunnel = Tunnel(clock, idle_seconds)
    runtime = End(tunnel)
    try:
        await _connect(runtime, request, url)
        status, head, rest = await _head(runtime)
        if status != 101:
            text = rest[:4096].decode(errors="replace").strip()
            raise error_response(status, f"the runtime responded with status {status}: {text}")
        try:
            client = hijack(request, tunnel)
        except ConnectionResetError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        try:
            client.send(head + rest)
            await tunnel.pass_bytes(runtime, client)
        finally:
            SENT_BYTES.get().count = runtime.passed
            client.close()
    finally:
        runtime.close()
    return ConnectionHijacked(status=101)


def is_websocket(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == "websocket"


async def _head(runtime: End) -> tuple[int, bytes, bytes]:
    try:
        return await runtime.read_head(HEAD_SECONDS)
    except MalformedResponseHead as error:
        raise web.HTTPBadGateway(text=f"the runtime's streaming endpoint {error}\n") from error
    except TimeoutError:
        raise web.HTTPGatewayTimeout(text="the runtime's streaming endpoint did not respond in time\n") from None


async def _connect(runtime: End, request: web.Request, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise web.HTTPBadGateway(text="the runtime's streaming endpoint is not plain HTTP on this host\n")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().create_connection(lambda: runtime, parts.hostname, parts.port or 80)
    except (OSError, TimeoutError) as error:
        text = f"the runtime's streaming endpoint is unreachable: {error}\n"
        raise web.HTTPBadGateway(text=text) from error
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{request.method} {target} HTTP/1.1".encode(), b"Host: " + parts.netloc.encode(), *_headers(request)]
    runtime.send(b"\r\n".join(lines) + b"\r\n\r\n")


def _headers(request: web.Request) -> list[bytes]:
    """Return the header lines for the runtime, without the client's credentials."""
    lines = []
    for name, value in request.raw_headers:
        if name.lower() == b"sec-websocket-protocol":
            if kept := without_token(value):
                lines.append(name + b": " + kept)
        elif name.lower() not in _KEPT_TO_OURSELVES:
            lines.append(name + b": " + value)
    return lines


def error_response(status: int, text: str) -> web.HTTPException:
    """Return the response for a runtime that rejected the upgrade with *status*."""
    known: dict[int, type[web.HTTPException]] = {
        400: web.HTTPBadRequest,
        403: web.HTTPForbidden,
        404: web.HTTPNotFound,
        504: web.HTTPGatewayTimeout,
    }
    return known.get(status, web.HTTPBadGateway)(text=f"{text}\n")
