"""Requests over HTTP/1.1 with aiohttp: one session, kept-alive connections, credentials read again when they change."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent.apiclient.transport import MAX_BODY_BYTES, ConnectionLost, Request, Response, Stream
from nodeagent.base import tracing
from nodeagent.base.aio import Clock
from nodeagent.base.file_signature import file_signature
from nodeagent.base.kubeconfig import Kubeconfig, KubeconfigError
from nodeagent.base.metrics import Counter, Histogram

if TYPE_CHECKING:
    import aiohttp

CREDENTIALS_SECONDS = 10.0
"""How old read credentials may be: certificates and tokens are replaced while we run."""
REQUESTS = Counter(
    "rest_client_requests_total",
    "Requests sent, by answer, method and host.",
    ("code", "method", "host"),
    prefixed=False,
)
DURATIONS = Histogram(
    "rest_client_request_duration_seconds",
    "How long requests took, by verb and host.",
    ("verb", "host"),
    bounds=(0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
    prefixed=False,
)
_CONNECTIONS = 100
_KEEP_ALIVE_SECONDS = 90.0
_CONNECT_SECONDS = 10.0
_PIECE_BYTES = 64 * 1024


class HttpTransport:
    """Speaks with the server of a kubeconfig.

    Nothing is opened, and aiohttp not even imported, before the first request. Once there are new credentials, new
    requests go over new connections; the old ones end soon after, and watches on them with it.

    :param pair: certificate and key that are shown instead of what the kubeconfig has, as soon as the file is there.
    """

    def __init__(self, kubeconfig: Kubeconfig, clock: Clock, *, pair: Path | None = None) -> None:
        self._kubeconfig = kubeconfig
        self._credentials = _Credentials(kubeconfig, clock, pair)
        self._session: aiohttp.ClientSession | None = None
        self._session_context: ssl.SSLContext | None = None
        self._old: list[tuple[float, aiohttp.ClientSession]] = []
        self._clock, self.host = clock, kubeconfig.server.partition("://")[2].partition("/")[0]

    async def request(self, request: Request, deadline_seconds: float) -> Response:
        with tracing.span(f"HTTP {request.method}", lambda: self._attributes(request), kind="client"):
            async with asyncio.timeout(deadline_seconds), self._send(request) as answer:
                return await _whole(answer)

    @asynccontextmanager
    async def stream(self, request: Request, deadline_seconds: float, idle_seconds: float) -> AsyncIterator[Stream]:
        async with AsyncExitStack() as opened:
            async with asyncio.timeout(deadline_seconds):
                answer = await opened.enter_async_context(self._send(request))
                failure = await _whole(answer) if answer.status >= 300 else None
            if failure is not None:
                yield Stream(failure, _nothing())
                return
            _notice_dead_peer(answer)
            yield Stream(_head(answer), _pieces(answer, idle_seconds))

    async def close(self) -> None:
        sessions = [session for _, session in self._old]
        if self._session is not None:
            sessions.append(self._session)
        self._session, self._old = None, []
        for session in sessions:
            await session.close()

    async def _end_old(self) -> None:
        """Leave the connections of former credentials; what is under way on them has until the next look to end."""
        now, context = self._clock.now(), self._credentials.context
        if self._session is not None and context is not self._session_context:
            self._old.append((now + CREDENTIALS_SECONDS, self._session))
            self._session = None
        self._session_context = context
        while self._old and self._old[0][0] <= now:
            await self._old.pop(0)[1].close()

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp

        await self._credentials.refresh()
        await self._end_old()
        headers = {**request.headers, **tracing.outgoing()}
        if self._credentials.authorization:
            headers["Authorization"] = self._credentials.authorization
        code, began = "<error>", self._clock.now()
        try:
            async with self._open().request(
                request.method,
                self._url(request.target),
                data=request.body or None,
                headers=headers,
                ssl=self._credentials.context or True,
                server_hostname=self._kubeconfig.tls_server_name or None,
                allow_redirects=False,
            ) as answer:
                code = str(answer.status)
                DURATIONS.observe(self._clock.now() - began, request.method, self.host)
                yield answer
        except aiohttp.ClientError as error:
            raise ConnectionLost(_say(error)) from error
        except ssl.SSLError as error:
            raise ConnectionLost(error.reason or str(error)) from error
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise ConnectionLost(error.strerror or str(error)) from error
        finally:
            REQUESTS.inc(code, request.method, self.host)

    def _attributes(self, request: Request) -> dict[str, str]:
        return {"http.method": request.method, "http.url": self._kubeconfig.server + request.target}

    def _url(self, target: str) -> Any:
        from yarl import URL

        return URL(self._kubeconfig.server + target, encoded=True)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=_KEEP_ALIVE_SECONDS),
                timeout=aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
                trust_env=False,
            )
        return self._session


class _Credentials:
    """The TLS context and the authorization header, from files that others replace."""

    def __init__(self, kubeconfig: Kubeconfig, clock: Clock, pair: Path | None = None) -> None:
        self._kubeconfig, self._clock, self._pair = kubeconfig, clock, pair
        self._read_at: float | None = None
        self._seen: tuple[object, ...] = ()
        self.context: ssl.SSLContext | None = None
        self.authorization = ""

    async def refresh(self) -> None:
        """Read again what is due; unreadable replacements leave the credentials in force."""
        now = self._clock.now()
        if self._read_at is not None and now - self._read_at < CREDENTIALS_SECONDS:
            return
        first, self._read_at = self._read_at is None, now
        changes = self._pair or self._kubeconfig.files() or self._kubeconfig.token_file
        if not first and not changes:
            return
        try:
            await asyncio.to_thread(self._read)
        except KubeconfigError as error:
            if first:
                self._read_at = None
                raise ConnectionLost(str(error)) from error

    def _read(self) -> None:
        shown = self._kubeconfig
        if self._pair is not None and self._pair.exists():
            shown = shown.with_pair(self._pair)
        seen = tuple((path, file_signature(path)) for path in shown.files())
        if self.context is None or seen != self._seen:
            self.context = shown.ssl_context()  # a new context also means new connections
            self._seen = seen
        self.authorization = shown.authorization()


async def _whole(answer: aiohttp.ClientResponse) -> Response:
    body = bytearray()
    async for piece in answer.content.iter_chunked(_PIECE_BYTES):
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise ConnectionLost(f"the answer is over {MAX_BODY_BYTES} bytes")
    return Response(answer.status, _headers(answer), bytes(body))


def _head(answer: aiohttp.ClientResponse) -> Response:
    return Response(answer.status, _headers(answer))


def _headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


async def _pieces(answer: aiohttp.ClientResponse, idle_seconds: float) -> AsyncIterator[bytes]:
    while True:
        async with asyncio.timeout(idle_seconds):
            piece = await answer.content.readany()
        if not piece:
            return
        yield piece


def _notice_dead_peer(answer: aiohttp.ClientResponse) -> None:
    """Have the kernel probe a silent connection, so that a vanished server is noticed within a minute."""
    transport = answer.connection.transport if answer.connection is not None else None
    end = transport.get_extra_info("socket") if transport is not None else None
    if end is None:
        return
    with suppress(OSError, AttributeError):  # a comfort; the idle limit holds without it
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def _say(error: Exception) -> str:
    """Return the cause in words; some errors of the library have none."""
    return str(error) or type(error).__name__
