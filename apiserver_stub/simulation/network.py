"""Simulated network: connections in memory between clients and the server's listener, directly below TLS."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any

from nodeagent.base.simulation.latency import Latency
from nodeagent.base.simulation.loop import PROCESS, SimulatedLoop

_HIGH_BYTES, _LOW_BYTES = 64 << 10, 16 << 10
_CONNECT_SECONDS = 0.001


class _Tls:
    """The TLS connection of a client without a certificate."""

    def selected_alpn_protocol(self) -> str:
        return "http/1.1"

    def getpeercert(self, *, binary_form: bool = False) -> Any:
        return None


class ListeningSocket:
    """The listening socket of a server process."""

    def __init__(self, network: Network, address: str, port: int) -> None:
        self._network, self._address, self._port = network, address, port
        self.process = PROCESS.get()
        self.backlog: deque[Connection] = deque()
        self.waiter: asyncio.Future[None] | None = None

    def getsockname(self) -> tuple[str, int]:
        return self._address, self._port

    def close(self) -> None:
        self._network.stop_listening(self)

    def offer(self, connection: Connection) -> None:
        """Add a connection that can be accepted."""
        self.backlog.append(connection)
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class Network:
    """All connections, and faults of the network.

    :ivar latency: delays of segments in seconds.
    :ivar loss: probability that a segment closes its connection instead of being delivered.
    """

    def __init__(self, seed: object, loop: ServerLoop) -> None:
        self.loop = loop
        self.latency = Latency(f"{seed}/network", 0.01, 1.0)
        self.loss = 0.0
        self.chance = random.Random(f"{seed}/loss")
        self.connections: dict[Connection, None] = {}
        self._listening: dict[int, ListeningSocket] = {}
        """Sockets by process; a load balancer connects the clients to any of them."""
        self._balance = random.Random(f"{seed}/balance")

    def listen(self, address: str, port: int, *, share_port: bool = False) -> list[ListeningSocket]:
        """Replace the function of the listener that binds its sockets."""
        listening = ListeningSocket(self, address, port)
        self._listening[listening.process] = listening
        return [listening]

    def stop_listening(self, listening: ListeningSocket) -> None:
        """Reject further connections."""
        if self._listening.get(listening.process) is listening:
            del self._listening[listening.process]

    def connect(self, receive: Callable[[bytes], None], lost: Callable[[], None]) -> Connection:
        """Return a new connection to the server; *lost* is called if it is rejected.

        :param receive: is called with data of the server.
        :param lost: is called once, when the server or the network closes the connection.
        """
        connection = Connection(self, receive, lost)
        self.loop.call_later(_CONNECT_SECONDS + self.latency(), self._arrive, connection, context=Context())
        return connection

    def _arrive(self, connection: Connection) -> None:
        if not self._listening:
            connection.reset()
            return
        listening = self._balance.choice(list(self._listening.values()))
        connection.process = listening.process
        self.connections[connection] = None
        listening.offer(connection)

    def cut(self, which: int) -> bool:
        """Close one of the connections on both sides; return false if there is none."""
        if not self.connections:
            return False
        list(self.connections)[which % len(self.connections)].reset()
        return True

    def crash(self, process: int, *, silent: bool) -> None:
        """Close the connections of a server process that ended.

        :param silent: without a message to the clients, as if the power was lost.
        """
        self._listening.pop(process, None)
        for connection in [each for each in self.connections if each.process == process]:
            connection.forget_server(silent=silent)


class Connection(asyncio.Transport):
    """One connection: the transport of the server's protocol, and the functions for the client."""

    def __init__(self, network: Network, receive: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        super().__init__()
        self._network, self._loop = network, network.loop
        self._receive, self._lost = receive, lost
        self.process = 0
        """Process of the server that accepts the connection."""
        self._protocol: Any = None
        self._context: Context | None = None
        # Timers with equal times expire in any order, so the order of the data is that of these queues.
        self._sent_to_client: deque[bytes] = deque()
        """Data in the network; empty for the end of the connection."""
        self._sent_to_server: deque[bytes] = deque()
        self._to_client: deque[bytes] = deque()
        self._to_server: deque[bytes] = deque()
        self._sent_bytes = 0
        self._client_at = self._server_at = 0.0
        self._paused = self._server_paused = False
        self._closing = False
        self._server_open = self._client_open = True
        self.client_reads = True

    # --- the client's side ------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send data to the server."""
        if self._client_open:
            due = self._server_at = max(self._server_at, self._loop.time() + self._network.latency())
            self._sent_to_server.append(data)
            self._loop.call_at(due, self._arrive_at_server, context=Context())

    def resume_client(self) -> None:
        """Read again, after :attr:`client_reads` was false."""
        self.client_reads = True
        self._deliver()

    def abandon(self) -> None:
        """Close the connection by the client."""
        self._client_open = False
        self._end_server()

    # --- the server's side ------------------------------------------------------------------------------------

    def accept(self, create: Callable[[], asyncio.BaseProtocol]) -> tuple[asyncio.BaseTransport, Any]:
        """Connect the server's protocol; its callbacks belong to the current process."""
        self._context = Context()
        self._context.run(PROCESS.set, PROCESS.get())
        protocol = create()
        self._protocol = self._protocol or protocol
        protocol.connection_made(self)
        while self._to_server and not self._server_paused:
            self._protocol.data_received(self._to_server.popleft())
        return self, protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return _Tls()
        return ("198.51.100.7", 40000) if name == "peername" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def write(self, data: Any) -> None:
        if not self._server_open or self._closing:
            return
        if self._network.loss and self._network.chance.random() < self._network.loss:
            self.reset()
            return
        content = bytes(data)
        self._sent_bytes += len(content)
        due = self._client_at = max(self._client_at, self._loop.time() + self._network.latency())
        self._sent_to_client.append(content)
        self._loop.call_at(due, self._arrive_at_client, context=Context())
        if self._sent_bytes > _HIGH_BYTES and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return self._closing or not self._server_open

    def close(self) -> None:
        """Close the connection by the server, after the data that it has sent."""
        if not self.is_closing():
            self._closing = True
            due = self._client_at = max(self._client_at, self._loop.time() + self._network.latency())
            self._sent_to_client.append(b"")
            self._loop.call_at(due, self._arrive_at_client, context=Context())
            self._loop.call_soon(self._end_server)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self._server_paused = True

    def resume_reading(self) -> None:
        self._server_paused = False
        if self._to_server:
            self._loop.call_soon(self._read_waiting)

    def get_write_buffer_size(self) -> int:
        return self._sent_bytes

    # --- the network ------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Close the connection on both sides."""
        self._end_server()
        self._loop.call_soon(self._end_client, context=Context())

    def forget_server(self, *, silent: bool) -> None:
        """Close the connection, because the server's process has ended."""
        self._server_open, self._protocol = False, None
        self._network.connections.pop(self, None)
        if not silent:
            self._loop.call_later(self._network.latency(), self._end_client, context=Context())

    def _arrive_at_server(self) -> None:
        data = self._sent_to_server.popleft()
        if self._protocol is None or self._server_paused:
            self._to_server.append(data)
        elif self._server_open and self._context is not None:
            self._context.run(self._protocol.data_received, data)  # Belongs to the server's process.

    def _read_waiting(self) -> None:
        while self._to_server and not self._server_paused and self._server_open:
            self._protocol.data_received(self._to_server.popleft())

    def _arrive_at_client(self) -> None:
        if data := self._sent_to_client.popleft():
            self._to_client.append(data)
            self._deliver()
        else:
            self._end_client()

    def _deliver(self) -> None:
        while self._to_client and self.client_reads and self._client_open:
            data = self._to_client.popleft()
            self._sent_bytes -= len(data)
            self._receive(data)
        if self._paused and self._sent_bytes < _LOW_BYTES and self._server_open and self._protocol is not None:
            self._paused = False
            self._loop.call_soon(self._protocol.resume_writing, context=self._context)

    def _end_client(self) -> None:
        if self._client_open:
            self._client_open = False
            self._lost()

    def _end_server(self) -> None:
        self._network.connections.pop(self, None)
        if self._server_open:
            self._server_open = False
            if self._protocol is not None:
                self._loop.call_soon(self._protocol.connection_lost, None, context=self._context)


class ServerLoop(SimulatedLoop):
    """Simulated event loop whose listening sockets are those of a simulated network."""

    async def sock_accept(self, sock: Any) -> tuple[Any, tuple[str, int]]:
        while not sock.backlog:
            sock.waiter = self.create_future()
            await sock.waiter
        return _Accepted(sock.backlog.popleft()), ("198.51.100.7", 40000)

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], sock: Any, **options: Any
    ) -> tuple[asyncio.BaseTransport, Any]:
        await asyncio.sleep(0)
        return sock.connection.accept(protocol_factory)  # type: ignore[no-any-return]


class _Accepted:
    """Socket of an accepted connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def setblocking(self, flag: bool) -> None:
        pass

    def shutdown(self, how: int) -> None:
        self.connection.reset()

    def close(self) -> None:
        self.connection.reset()
