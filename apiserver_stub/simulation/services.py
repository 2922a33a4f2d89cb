"""Services that the simulated server calls: connections in memory, directly below TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol, TypeVar

import httptools
import msgspec

from apiserver_stub.simulation.network import Network
from nodeagent.base.simulation.loop import PROCESS
from nodeagent.base.structs import MutableStruct, Struct

P = TypeVar("P", bound=asyncio.BaseProtocol)
_HANGS_SECONDS = 120.0
"""Time after which the system gives up a connection attempt that receives no response."""


class Call(MutableStruct):
    """One request of the server to a service.

    :ivar started_at: time at which the server opened the connection, or reused it.
    """

    path: str
    query: str
    body: bytes
    started_at: float


class Reply(Struct, frozen=True):
    """The reaction of a service to a request.

    :param data: the bytes of the response; empty for none.
    :param seconds: delay before it is sent.
    :param closes: the service closes the connection afterwards.
    :param delivered: is called after the server's protocol has received the data.
    """

    data: bytes = b""
    seconds: float = 0.0
    closes: bool = False
    delivered: Callable[[], None] | None = None


class Service(Protocol):
    """A service that receives HTTP requests."""

    def accepts(self) -> bool | None:
        """Return whether a connection is accepted; ``None`` if the attempt receives no response."""
        ...

    def respond(self, call: Call) -> Reply:
        """Return the reaction to a request."""
        ...


FindService = Callable[[str, int], Service | None]
"""Returns the service at a host and port."""


class ServiceDialer:
    """Opens connections to simulated services instead of real ones.

    :param find: returns the service at a host and port.
    """

    by_name = True

    def __init__(self, network: Network, find: FindService) -> None:
        self._network, self._find = network, find

    async def connect(
        self, factory: Callable[[], P], host: str, port: int, tls: Any = None, server_name: str = ""
    ) -> P:
        """Return a connected protocol of *factory*.

        :raises OSError: the service rejects the connection.
        """
        network, started_at = self._network, self._network.loop.time()
        service = self._find(host, port)
        accepted = service.accepts() if service is not None else False
        if accepted is None:
            await asyncio.sleep(_HANGS_SECONDS)
            raise TimeoutError(110, "Connection timed out")
        await asyncio.sleep(2 * network.latency())
        if service is None or not accepted:
            raise ConnectionRefusedError(111, "Connection refused")
        protocol = factory()
        protocol.connection_made(ServiceConnection(network, service, protocol, started_at))
        return protocol

    async def close(self) -> None:
        """Nothing is shared."""


class ServiceConnection(asyncio.Transport):
    """A connection of the server to a service: the transport of the server's protocol."""

    def __init__(self, network: Network, service: Service, protocol: Any, started_at: float) -> None:
        super().__init__()
        self._network, self._loop, self._service, self._protocol = network, network.loop, service, protocol
        self._context = Context()  # Callbacks of the protocol end with the process.
        self._context.run(PROCESS.set, PROCESS.get())
        self._started_at: float | None = started_at
        self._parser = httptools.HttpRequestParser(self)
        self._path, self._body = b"", b""
        self._server_at = self._service_at = 0.0
        self._open = True

    # --- the server's side ------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.80", 443) if name == "peername" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def write(self, data: Any) -> None:
        if not self._open:
            return
        if self._started_at is None:
            self._started_at = self._loop.time()
        if self._is_lost():
            self._end(ConnectionResetError(104, "Connection reset by peer"))
            return
        due = self._service_at = max(self._service_at, self._loop.time() + self._network.latency())
        self._loop.call_at(due, self._arrive, bytes(data), context=Context())

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return not self._open

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def pause_reading(self) -> None:
        """Ignore it, because the responses are small."""

    def resume_reading(self) -> None:
        """Ignore it, because nothing is held."""

    def get_write_buffer_size(self) -> int:
        return 0

    # --- the service's side -----------------------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        """Add a part of the URL."""
        self._path += url

    def on_body(self, data: bytes) -> None:
        """Add a part of the body."""
        self._body += data

    def on_message_complete(self) -> None:
        """React to a complete request."""
        started_at = self._loop.time() if self._started_at is None else self._started_at
        path, _, query = self._path.decode().partition("?")
        call = Call(path, query, self._body, started_at)
        self._path, self._body, self._started_at = b"", b"", None
        reply = self._service.respond(call)
        due = self._server_at = max(self._server_at, self._loop.time() + reply.seconds + self._network.latency())
        if reply.data or reply.closes:
            self._loop.call_at(due, self._deliver, reply, context=self._context)

    def _arrive(self, data: bytes) -> None:
        if self._open:
            self._parser.feed_data(data)

    def _deliver(self, reply: Reply) -> None:
        """Pass a response to the server's process."""
        if not self._open:
            return
        if self._is_lost():
            self._end(ConnectionResetError(104, "Connection reset by peer"))
            return
        if reply.data:
            self._protocol.data_received(reply.data)
        if reply.delivered is not None:
            reply.delivered()
        if reply.closes:
            self._end(None)

    def _is_lost(self) -> bool:
        return bool(self._network.loss) and self._network.chance.random() < self._network.loss

    def _end(self, error: Exception | None) -> None:
        if self._open:
            self._open = False
            self._loop.call_soon(self._protocol.connection_lost, error, context=self._context)


def http_response(content: Any, status: int = 200) -> bytes:
    """Return an HTTP response with JSON, or with bytes."""
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    location = "Location: https://other.simulated.test/\r\n" if status == 302 else ""
    head = f"HTTP/1.1 {status} Simulated\r\nContent-Type: application/json\r\n{location}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
