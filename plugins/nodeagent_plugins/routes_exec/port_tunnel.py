"""Port forwarding over WebSockets: the messages of the client carry the SPDY connection to the runtime."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from aiohttp import WSMsgType, web

from nodeagent.base.aio import Clock
from nodeagent.base.spdy_streams import READ_BYTES, SpdyConnection, UpgradeFailed
from nodeagent.base.stream_translation import run_until_first
from nodeagent.contracts.server import SENT_BYTES
from nodeagent_plugins.routes_exec.spdy_client import open_spdy
from nodeagent_plugins.routes_exec.websockets import TUNNEL_PREFIX, IdleLimit, accept


async def tunnel_ports(
    request: web.Request, url: str, protocols: Sequence[str], clock: Clock, idle_seconds: float
) -> web.StreamResponse:
    """Copy bytes between the WebSocket and the SPDY connection to *url* until one side closes.

    :raises UpgradeFailed: the runtime rejects the connection; the WebSocket is not accepted.
    """
    connection = await open_spdy(url, protocols)
    try:
        if connection.protocol not in protocols:
            raise UpgradeFailed(502, f"the runtime does not support {', '.join(protocols)}")
        socket = await accept(request, (TUNNEL_PREFIX + connection.protocol,))
        idle = IdleLimit(clock, idle_seconds)
        with contextlib.suppress(ConnectionError):  # One side has disconnected.
            await run_until_first(
                _to_runtime(socket, connection, idle), _to_client(socket, connection, idle), idle.wait()
            )
    finally:
        connection.close()
    await socket.close()
    return socket


async def _to_runtime(socket: web.WebSocketResponse, connection: SpdyConnection, idle: IdleLimit) -> None:
    async for message in socket:
        if message.type is not WSMsgType.BINARY:
            return
        idle.touch()
        await connection.send(message.data)


async def _to_client(socket: web.WebSocketResponse, connection: SpdyConnection, idle: IdleLimit) -> None:
    while data := await connection.reader.read(READ_BYTES):
        idle.touch()
        await socket.send_bytes(data)
        SENT_BYTES.get().count += len(data)
