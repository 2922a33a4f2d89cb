"""WebSockets that end at the node: subprotocols, metric and idle limit.

Without feature gate ``ExtendWebSocketsToNodeAgent``, and for other subprotocols, the runtime receives the bytes of the
WebSocket unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web

from nodeagent.base.aio import Clock
from nodeagent.base.metrics import Counter
from nodeagent.base.stream_translation import STREAM_CLOSE
from nodeagent_plugins.routes_exec.tunnel import is_websocket

GATE = "ExtendWebSocketsToNodeAgent"
TUNNEL_PREFIX, TUNNEL_SUFFIX = "SPDY/3.1+", ".k8s.io"
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
CLOSE_SECONDS = 5.0
REQUESTS = Counter(
    "websocket_streaming_requests_total",
    "Total number of WebSocket streaming requests (exec/attach/portforward) received by the kubelet.",
    ("subresource",),
)


def requests_stream_close(request: web.Request) -> bool:
    """Return whether the client offers the subprotocol whose streams are translated."""
    return is_websocket(request) and STREAM_CLOSE in (name.lower() for name in _offered(request))


def tunneled_protocols(request: web.Request) -> Sequence[str]:
    """Return the SPDY subprotocols that the client offers inside a WebSocket; empty if it requests no tunnel."""
    if not is_websocket(request):
        return ()
    return [
        name.removeprefix(TUNNEL_PREFIX)
        for name in _offered(request)
        if name.startswith(TUNNEL_PREFIX) and name.endswith(TUNNEL_SUFFIX)
    ]


def _offered(request: web.Request) -> list[str]:
    lines = request.headers.getall("Sec-WebSocket-Protocol", ())
    return [name.strip() for line in lines for name in line.split(",")]


async def accept(request: web.Request, protocols: Sequence[str]) -> web.WebSocketResponse:
    """Complete the handshake with one of *protocols*."""
    socket = web.WebSocketResponse(
        protocols=protocols, max_msg_size=MAX_MESSAGE_BYTES, compress=False, timeout=CLOSE_SECONDS
    )
    await socket.prepare(request)
    return socket


class IdleLimit:
    """Limit of the time without data in either direction (spec: config.streamingConnectionIdleTimeout).

    :param seconds: the limit; 0 disables it.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._last_at = clock.now()

    def touch(self) -> None:
        """Record that data was sent or received."""
        self._last_at = self._clock.now()

    async def wait(self) -> None:
        """Return once the limit is exceeded."""
        if not self._seconds:
            await asyncio.Event().wait()
        while (due := self._last_at + self._seconds) > self._clock.now():
            await self._clock.sleep_until(due)
