"""Commands of clients over WebSockets, translated to SPDY streams of the node agent.

spec: gate.TranslateStreamCloseWebsocketRequests
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from apiserver_stub.nodes.agents import DialFailed, Unreachable
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.nodes.messages import invalid_handshake
from apiserver_stub.transport import websocket
from apiserver_stub.transport.message_socket import MessageSocket
from apiserver_stub.transport.sub_protocols import sub_protocols
from nodeagent.base import tracing
from nodeagent.base.spdy_streams import SpdyConnection, UpgradeFailed, upgrade
from nodeagent.base.stream_translation import PROTOCOL, STREAM_CLOSE, Streams, TranslatedSession

if TYPE_CHECKING:
    from apiserver_stub.nodes.stream import Stream
    from apiserver_stub.transport.http import HttpRequest
    from apiserver_stub.transport.rendered import Rendered

PEER = "the node agent"


def requests_stream_close(http: HttpRequest) -> bool:
    """Return whether the client offers the subprotocol in which it can close its input."""
    return websocket.is_websocket(http) and STREAM_CLOSE in sub_protocols(http.headers)


async def translate(stream: Stream, endpoint: Endpoint, target: str, translations: Counter[int]) -> Rendered | None:
    """Accept the WebSocket and copy its channels to and from the streams of *target* until either side closes.

    Errors of the agent are sent on the error channel, since the client expects them there. The response is 400 for an
    invalid handshake.

    :param translations: counts the request by its code, which is 500 if the agent fails.
    """
    if (rejection := invalid_handshake(stream)) is not None:
        translations[rejection.code] += 1
        return rejection
    names = ("stdin", "stdout", "stderr", "tty")
    stdin, stdout, stderr, tty = (stream.query.flag(name) for name in names)
    await stream.begin(101)
    socket = MessageSocket()
    websocket.upgrade(stream.http, socket, STREAM_CLOSE)
    session = TranslatedSession(_Client(socket), Streams(stdin, stdout, stderr and not tty, tty), PEER)
    with contextlib.suppress(ConnectionError):  # The client has disconnected.
        await session.run(lambda: connect_spdy(stream, endpoint, target, PROTOCOL))
    translations[500 if session.outcome.failed else 200] += 1
    await socket.close()
    return None


class _Client:
    def __init__(self, socket: MessageSocket) -> None:
        self._socket = socket

    async def send(self, message: bytes) -> None:
        await self._socket.send(message, text=False)

    def messages(self) -> AsyncIterator[bytes]:
        return self._socket.messages()


class _ReaderProtocol(asyncio.StreamReaderProtocol):
    """Protocol of a stream reader that keeps its transport, for a writer."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = transport  # type: ignore[assignment]  # Those of uvloop are not subclasses.


async def connect_spdy(stream: Stream, endpoint: Endpoint, target: str, protocol: str) -> SpdyConnection:
    """Return a SPDY connection to *target* that offers the subprotocol *protocol*.

    :raises UpgradeFailed: the agent is unreachable or rejects the upgrade.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    try:
        connected = await stream.agents.connect(lambda: _ReaderProtocol(reader, loop=loop), endpoint)
    except Unreachable as error:
        raise UpgradeFailed(500, DialFailed(error.why).message) from error
    writer = asyncio.StreamWriter(connected.transport, connected, reader, loop)
    fields = {"Host": endpoint.authority, **tracing.outgoing()}
    head = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return await upgrade(reader, writer, head, (protocol,), PEER)
