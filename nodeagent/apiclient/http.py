"""HTTP transport: persistent connections, and credentials that are reloaded when they change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from nodeagent.apiclient.body import Body
from nodeagent.apiclient.credentials import CREDENTIALS_SECONDS, Credentials
from nodeagent.apiclient.pool import Pool
from nodeagent.apiclient.route import Route, route
from nodeagent.apiclient.stream_pool import StreamPool
from nodeagent.apiclient.transport import ConnectionLost, Request, Response, Stream, reason_of
from nodeagent.base import tracing
from nodeagent.base.aio import Clock
from nodeagent.base.kubeconfig import Kubeconfig, KubeconfigError
from nodeagent.base.metrics import Counter, Histogram

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


@dataclass(frozen=True, slots=True)
class _Connections:
    """The connections with the same credentials."""

    requests: Pool
    streams: StreamPool

    def close(self) -> None:
        self.requests.close()
        self.streams.close()


class HttpTransport:
    """Transport to the server of a kubeconfig.

    Requests use HTTP/1.1, which needs less CPU time; streams share connections of HTTP/2 if the server supports it.

    No connection is opened before the first request. After a change of credentials, requests use new connections; the
    previous ones are closed soon after, including watches on them.

    :param pair: file with certificate and key that replaces the credentials of the kubeconfig once it exists.
    """

    def __init__(self, kubeconfig: Kubeconfig, clock: Clock, *, pair: Path | None = None) -> None:
        self._kubeconfig = kubeconfig
        self._credentials = Credentials(kubeconfig, clock, pair)
        self._current: _Connections | None = None
        self._previous: list[tuple[float, _Connections]] = []
        self._slots = asyncio.Semaphore(_REQUESTS)
        self._clock, self.host = clock, kubeconfig.server.partition("://")[2].partition("/")[0]

    async def request(self, request: Request, deadline_seconds: float) -> Response:
        with tracing.span(f"HTTP {request.method}", lambda: self._attributes(request), kind="client"):
            async with asyncio.timeout(deadline_seconds), self._slots, self._send(request) as (head, body):
                return await body.complete(head)

    @asynccontextmanager
    async def stream(self, request: Request, deadline_seconds: float, idle_seconds: float) -> AsyncIterator[Stream]:
        async with AsyncExitStack() as opened:
            async with asyncio.timeout(deadline_seconds):
                head, body = await opened.enter_async_context(self._send(request, streamed=True))
                if head.status >= 300:
                    head = await body.complete(head)
            body.idle_seconds = idle_seconds
            yield Stream(head, body)

    async def close(self) -> None:
        groups = [connections for _, connections in self._previous]
        if self._current is not None:
            groups.append(self._current)
        self._current, self._previous = None, []
        for connections in groups:
            connections.close()
        await asyncio.sleep(0)  # The event loop closes the connections.

    def _connections(self) -> _Connections:
        """Return those of the current credentials; requests in flight with previous ones have some more time."""
        now, context = self._clock.now(), self._credentials.context
        if self._current is not None and self._current.requests.context is not context:
            self._previous.append((now + CREDENTIALS_SECONDS, self._current))
            self._current = None
        while self._previous and self._previous[0][0] <= now:
            self._previous.pop(0)[1].close()
        if self._current is None:
            requests = Pool(self._route(), context, self._kubeconfig.tls_server_name, self._clock)
            streams = StreamPool(requests, self._credentials.stream_context)
            self._current = _Connections(requests, streams)
        return self._current

    def _route(self) -> Route:
        try:
            return route(self._kubeconfig.server, self._kubeconfig.proxy())
        except KubeconfigError as error:
            raise ConnectionLost(str(error)) from error

    @asynccontextmanager
    async def _send(self, request: Request, *, streamed: bool = False) -> AsyncIterator[tuple[Response, Body]]:
        await self._credentials.refresh()
        connections, authorization = self._connections(), self._credentials.authorization
        pool = connections.streams if streamed else connections.requests
        headers = {
            **connections.requests.route.headers(),
            "Accept-Encoding": "gzip",
            **request.headers,
            **tracing.outgoing(),
        }
        if authorization:
            headers["Authorization"] = authorization
        code, started = "<error>", self._clock.now()
        try:
            complete = Request(request.method, request.target, headers, request.body)
            async with pool.exchange(complete) as (source, head):
                code = str(head.status)
                if head.status == HTTPStatus.UNAUTHORIZED:
                    self._credentials.reject(authorization)
                DURATIONS.observe(self._clock.now() - started, request.method, self.host)
                yield head, Body(source, head.headers.get("content-encoding", ""))
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            raise ConnectionLost(reason_of(error)) from error
        finally:
            REQUESTS.inc(code, request.method, self.host)

    def _attributes(self, request: Request) -> dict[str, str]:
        return {"http.method": request.method, "http.url": self._kubeconfig.server + request.target}
