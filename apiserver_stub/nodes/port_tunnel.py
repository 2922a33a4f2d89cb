"""Port forwarding over WebSockets: the messages of the client carry the SPDY connection to the node agent.

spec: gate.PortForwardWebsockets
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.nodes.messages import invalid_handshake
from apiserver_stub.nodes.translation import PEER, connect_spdy
from apiserver_stub.transport import websocket
from apiserver_stub.transport.message_socket import MessageSocket
from apiserver_stub.transport.sub_protocols import sub_protocols
from nodeagent.base.spdy_streams import READ_BYTES, SpdyConnection, UpgradeFailed
from nodeagent.base.stream_translation import run_until_first

if TYPE_CHECKING:
    from apiserver_stub.nodes.stream import Stream
    from apiserver_stub.transport.http import HttpRequest
    from apiserver_stub.transport.rendered import Rendered

_PROTOCOL = "portforward.k8s.io"
_TUNNEL = f"SPDY/3.1+{_PROTOCOL}"


def requests_tunnel(http: HttpRequest) -> bool:
    """Return whether the client offers the subprotocol that carries a SPDY connection."""
    return websocket.is_websocket(http) and _TUNNEL in sub_protocols(http.headers)


async def tunnel(stream: Stream, endpoint: Endpoint, target: str) -> Rendered | None:
    """Copy bytes between the WebSocket and a SPDY connection to *target* until either side closes.

    The response is 400 for an invalid handshake.

    :raises ApiError: the agent is unreachable or rejects the connection; the WebSocket is not accepted, so that the
        client can use SPDY instead.
    """
    if (rejection := invalid_handshake(stream)) is not None:
        return rejection
    try:
        connection = await connect_spdy(stream, endpoint, target, _PROTOCOL)
    except UpgradeFailed as error:
        raise ApiError(error.status, "InternalError", str(error)) from error
    try:
        if connection.protocol != _PROTOCOL:
            raise ApiError(502, "InternalError", f"{PEER} does not support {_PROTOCOL}")
        await stream.begin(101)
        socket = MessageSocket()
        websocket.upgrade(stream.http, socket, _TUNNEL)
        with contextlib.suppress(ConnectionError):  # One side has disconnected.
            await run_until_first(_to_agent(socket, connection), _to_client(socket, connection))
    finally:
        connection.close()
    await socket.close()
    return None


async def _to_agent(socket: MessageSocket, connection: SpdyConnection) -> None:
    async for message in socket.messages():
        await connection.send(message)


async def _to_client(socket: MessageSocket, connection: SpdyConnection) -> None:
    while data := await connection.reader.read(READ_BYTES):
        await socket.send(data, text=False)
