"""Streaming server for exec, attach and port forwarding on the loopback address, with single-use URLs.

Streams use WebSockets or SPDY/3.1 with the channel protocols of Kubernetes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Iterable
from typing import Any, cast

from aiohttp import web
from cachetools import TTLCache

from nodeagent.base.structs import Struct
from nodeagent_plugins.embedded_runtime.channels import Session, WebSocketSession
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.spdy_session import SpdySession

_log = logging.getLogger(__name__)
OFFER_SECONDS = 60.0
"""Validity of a URL."""
MAX_OFFERS = 1000
STOP_SECONDS = 2.0
PROTOCOLS = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
)
PORT_FORWARD_PROTOCOLS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")
SPDY = "SPDY/3.1"
SPDY_PROTOCOLS = ("v4.channel.k8s.io",)
SPDY_PORT_FORWARD_PROTOCOLS = ("portforward.k8s.io",)


class _Offer(Struct, frozen=True):
    kind: str
    request: Any


class StreamingServer:
    """Creates URLs and serves them.

    :param run: executes a CRI request of a kind until either side closes the stream.
    """

    def __init__(self, run: Callable[[str, Any, Session], Any]) -> None:
        self._run = run
        self._offers: TTLCache[str, _Offer] = TTLCache(MAX_OFFERS, OFFER_SECONDS)
        self._runner: web.AppRunner | None = None
        self._base = ""
        self._starting = asyncio.Lock()

    async def offer(self, kind: str, request: Any) -> str:
        """Return a URL for *request*, valid once and for one minute."""
        async with self._starting:
            if self._runner is None:
                await self._start()
        self._offers.expire()
        if len(self._offers) >= MAX_OFFERS:
            raise CallError("too many streams wait to be opened")
        token = secrets.token_urlsafe(32)
        self._offers[token] = _Offer(kind, request)
        return f"{self._base}/{kind}/{token}"

    async def close(self) -> None:
        """Close all streams."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{kind}/{token}", self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self._runner, self._base = runner, f"http://{host}:{port}"

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        offer = self._offers.get(request.match_info["token"])
        if offer is None or offer.kind != request.match_info["kind"]:
            raise web.HTTPNotFound(text="unknown or already used stream\n")
        known: tuple[str, ...]
        upgrade, forwards = request.headers.get("Upgrade", ""), offer.kind == "portforward"
        if upgrade.upper() == SPDY:
            known = SPDY_PORT_FORWARD_PROTOCOLS if forwards else SPDY_PROTOCOLS
            requested = _words(request.headers.getall("X-Stream-Protocol-Version", ()))
        else:
            known = PORT_FORWARD_PROTOCOLS if forwards else PROTOCOLS
            requested = _words(request.headers.getall("Sec-WebSocket-Protocol", ()))
        chosen = next((name for name in requested if name in known), "")
        unversioned = upgrade.lower() == "websocket" and not requested and not forwards
        if not (chosen or unversioned) or upgrade.lower() not in ("websocket", SPDY.lower()):
            text = f"this runtime streams over WebSocket or {SPDY}; over this one as {' or '.join(known)}\n"
            raise web.HTTPBadRequest(text=text)
        del self._offers[request.match_info["token"]]
        if upgrade.upper() == SPDY:
            return await self._serve_spdy(request, offer, chosen)
        socket = web.WebSocketResponse(protocols=known, max_msg_size=1 << 20)
        await socket.prepare(request)
        await self._execute(offer, WebSocketSession(socket, chosen))
        with contextlib.suppress(ConnectionError):
            await socket.close()
        return socket

    async def _serve_spdy(self, request: web.Request, offer: _Offer, protocol: str) -> web.StreamResponse:
        transport = request.transport
        if transport is None:
            raise web.HTTPBadRequest(text="the client has disconnected\n")

        def hold(wait: bool) -> None:
            if not transport.is_closing():
                (transport.pause_reading if wait else transport.resume_reading)()

        async def write(data: bytes) -> None:
            await writer.write(data)

        session = SpdySession(write, hold)
        headers = {"Connection": "Upgrade", "Upgrade": SPDY, "X-Stream-Protocol-Version": protocol}
        response = web.StreamResponse(status=101, headers=headers)
        response.force_close()
        request.protocol.set_parser(cast(Any, session))  # aiohttp calls only two methods of a parser.
        writer: Any = await response.prepare(request)
        await self._execute(offer, session)
        await session.finish()
        return response

    async def _execute(self, offer: _Offer, session: Session) -> None:
        try:
            await self._run(offer.kind, offer.request, session)
        except CallError as error:
            await session.fail(str(error))
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            _log.info("Stream failed", extra={"kind": offer.kind, "err": str(error)})


def _words(lines: Iterable[str]) -> list[str]:
    return [word for line in lines for part in line.split(",") if (word := part.strip())]
