"""HTTP/1.1 transport with aiohttp: one session, persistent connections, credentials reloaded when they change."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent.apiclient.credentials import CREDENTIALS_SECONDS, Credentials
from nodeagent.apiclient.transport import MAX_BODY_BYTES, ConnectionLost, Request, Response, Stream
from nodeagent.base import tracing
from nodeagent.base.aio import Clock
from nodeagent.base.kubeconfig import Kubeconfig, KubeconfigError
from nodeagent.base.metrics import Counter, Histogram

if TYPE_CHECKING:
    import aiohttp

REQUESTS = Counter(
    "rest_client_requests_total",
    "Number of HTTP requests, partitioned by status code, method, and host.",
    ("code", "method", "host"),
    prefixed=False,
)
DURATIONS = Histogram(
    "rest_client_request_duration_seconds",
    "Request latency in seconds. Broken down by verb, and host.",
    ("verb", "host"),
    bounds=(0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
    prefixed=False,
)
_REQUESTS = 100
"""Maximum number of concurrent requests. It excludes streams: a node watches each ConfigMap and Secret of its pods."""
_KEEP_ALIVE_SECONDS = 90.0
_CONNECT_SECONDS = 10.0
_PIECE_BYTES = 64 * 1024


class HttpTransport:
    """Transport to the server of a kubeconfig.

    No connection is opened, and aiohttp not imported, before the first request. After a change of credentials, requests
    use new connections; the previous ones are closed soon after, including watches on them.

    :param pair: file with certificate and key that replaces the credentials of the kubeconfig once it exists.
    """

    def __init__(self, kubeconfig: Kubeconfig, clock: Clock, *, pair: Path | None = None) -> None:
        self._kubeconfig = kubeconfig
        self._credentials = Credentials(kubeconfig, clock, pair)
        self._session: aiohttp.ClientSession | None = None
        self._session_context: ssl.SSLContext | None = None
        self._previous: list[tuple[float, aiohttp.ClientSession]] = []
        self._slots = asyncio.Semaphore(_REQUESTS)
        self._clock, self.host = clock, kubeconfig.server.partition("://")[2].partition("/")[0]

    async def request(self, request: Request, deadline_seconds: float) -> Response:
        with tracing.span(f"HTTP {request.method}", lambda: self._attributes(request), kind="client"):
            async with asyncio.timeout(deadline_seconds), self._slots, self._send(request) as response:
                return await _read_response(response)

    @asynccontextmanager
    async def stream(self, request: Request, deadline_seconds: float, idle_seconds: float) -> AsyncIterator[Stream]:
        async with AsyncExitStack() as opened:
            async with asyncio.timeout(deadline_seconds):
                response = await opened.enter_async_context(self._send(request))
                failure = await _read_response(response) if response.status >= 300 else None
            if failure is not None:
                yield Stream(failure, _nothing())
                return
            _enable_keepalive(response)
            yield Stream(_head(response), _pieces(response, idle_seconds))

    async def close(self) -> None:
        sessions = [session for _, session in self._previous]
        if self._session is not None:
            sessions.append(self._session)
        self._session, self._previous = None, []
        for session in sessions:
            await session.close()

    async def _close_previous(self) -> None:
        """Stop using connections with previous credentials; requests in flight on them have until the next check."""
        now, context = self._clock.now(), self._credentials.context
        if self._session is not None and context is not self._session_context:
            self._previous.append((now + CREDENTIALS_SECONDS, self._session))
            self._session = None
        self._session_context = context
        while self._previous and self._previous[0][0] <= now:
            await self._previous.pop(0)[1].close()

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp

        await self._credentials.refresh()
        await self._close_previous()
        headers, authorization = {**request.headers, **tracing.outgoing()}, self._credentials.authorization
        if authorization:
            headers["Authorization"] = authorization
        code, started = "<error>", self._clock.now()
        try:
            async with self._open().request(
                request.method,
                self._url(request.target),
                data=request.body or None,
                headers=headers,
                ssl=self._credentials.context or True,
                server_hostname=self._kubeconfig.tls_server_name or None,
                proxy=self._proxy(),
                allow_redirects=False,
            ) as response:
                code = str(response.status)
                if response.status == HTTPStatus.UNAUTHORIZED:
                    self._credentials.reject(authorization)
                DURATIONS.observe(self._clock.now() - started, request.method, self.host)
                yield response
        except aiohttp.ClientError as error:
            raise ConnectionLost(_reason(error)) from error
        except ssl.SSLError as error:
            raise ConnectionLost(error.reason or str(error)) from error
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise ConnectionLost(error.strerror or str(error)) from error
        finally:
            REQUESTS.inc(code, request.method, self.host)

    def _proxy(self) -> str | None:
        try:
            return self._kubeconfig.proxy() or None
        except KubeconfigError as error:
            raise ConnectionLost(str(error)) from error

    def _attributes(self, request: Request) -> dict[str, str]:
        return {"http.method": request.method, "http.url": self._kubeconfig.server + request.target}

    def _url(self, target: str) -> Any:
        from yarl import URL

        return URL(self._kubeconfig.server + target, encoded=True)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
                timeout=aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
                trust_env=False,
            )
        return self._session


async def _read_response(response: aiohttp.ClientResponse) -> Response:
    body = bytearray()
    async for piece in response.content.iter_chunked(_PIECE_BYTES):
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise ConnectionLost(f"the response is over {MAX_BODY_BYTES} bytes")
    return Response(response.status, _headers(response), bytes(body))


def _head(response: aiohttp.ClientResponse) -> Response:
    return Response(response.status, _headers(response))


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


async def _pieces(response: aiohttp.ClientResponse, idle_seconds: float) -> AsyncIterator[bytes]:
    while True:
        async with asyncio.timeout(idle_seconds):
            piece = await response.content.readany()
        if not piece:
            return
        yield piece


def _enable_keepalive(response: aiohttp.ClientResponse) -> None:
    """Enable TCP keepalive probes, so that an unreachable server is detected within a minute."""
    transport = response.connection.transport if response.connection is not None else None
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None:
        return
    with suppress(OSError, AttributeError):  # Optional: without it, the idle limit still applies.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def _reason(error: Exception) -> str:
    """Return the reason, or the type of an error without text."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error.os_error, ssl.SSLError):
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.os_error)
        return f"cannot connect to {error.host}:{error.port}: {reason}"
    return str(error) or type(error).__name__
