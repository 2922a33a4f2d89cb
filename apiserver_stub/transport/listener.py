"""TLS listener with limits on connections, concurrent TLS handshakes and handshake duration.

When a limit is reached, the slowest handshake or the longest idle connection is closed, first among those of the client
address with the most connections, so that one host cannot exclude others.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from apiserver_stub.transport.connection_log import ThrottledConnectionLog
from apiserver_stub.transport.http import Handler
from apiserver_stub.transport.http1.connection import Connection, create_server
from apiserver_stub.transport.http2.negotiation import Negotiation, Terms
from nodeagent.base.aio import TaskOwner
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.transport.http2.connection import Http2Connection

HANDSHAKE_SECONDS = 10.0
HURRIED_SECONDS = 3.0
"""Handshake timeout while the maximum number of handshakes is in progress."""
MAX_HANDSHAKES = 256
MAX_CONNECTIONS = 4096
IDLE_SECONDS = 90.0
"""Idle timeout of a connection, and the time limit for the headers of its first request."""
_BACKLOG = 1024
_OTHER_FILES = 128
"""Open files reserved for the store, logs and outgoing connections."""
_PAUSE_SECONDS = 0.2
_PORT_ATTEMPTS = 8
_DRAIN_SECONDS = 5.0


class _Handshake(Struct, frozen=True):
    address: str
    started: float
    socket: socket.socket


class Listener:
    """Listens on one port and passes requests to *handler*.

    :param context: returns the TLS context of a new connection.
    :param http2: settings of HTTP/2, which the contexts must offer; ``None`` disables it.
    """

    def __init__(self, handler: Handler, context: Callable[[], ssl.SSLContext], http2: Terms | None = None) -> None:
        self._handler, self._context, self._terms = handler, context, http2
        self._server = create_server(handler)
        self._http2: dict[Http2Connection, None] = {}
        self._sockets: list[socket.socket] = []
        self._handshakes: dict[object, _Handshake] = {}
        """Handshakes in progress, in the order of their start."""
        self._shaking: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._ended = asyncio.Event()
        self._error_log = ThrottledConnectionLog()
        self._accepting: TaskOwner = TaskOwner("listener")
        self._connecting: TaskOwner = TaskOwner("connections")
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = MAX_CONNECTIONS if files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, files - _OTHER_FILES)
        self.failed_handshakes = 0

    @property
    def connections(self) -> int:
        """Number of connections, including those in the TLS handshake."""
        return self._by_address.total()

    def open(self, address: str, port: int, *, share_port: bool = False) -> int:
        """Listen on *address* (empty: all addresses of the host) and return the port.

        :raises OSError: the port is in use, or the address does not belong to the host.
        """
        self._sockets = _bind(address, port, share_port=share_port)
        for listening in self._sockets:
            self._accepting.start(self._accept(listening), "accept")
        return int(self._sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop accepting connections; existing ones stay open, and HTTP/2 clients are sent GOAWAY."""
        await self._accepting.close()
        for listening in self._sockets:
            listening.close()
        for connection in list(self._http2):
            connection.leave()

    async def close(self) -> None:
        """Stop accepting connections, and close existing ones after their requests in progress."""
        await self.stop()
        await self._connecting.close()
        self._server.pre_shutdown()
        streams = [task for connection in self._http2 for task in connection.tasks]
        await asyncio.gather(self._server.shutdown(_DRAIN_SECONDS), _drain(streams))
        for connection in list(self._http2):
            connection.force_close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wait_for_handshake_slot()
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:  # too many open files, or the client has disconnected
                self._error_log.report("Failed to accept connection", None, error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            address = str(peer[0])
            if self.connections >= self._most and not self._end_idle():
                self._error_log.report("Too many connections", address, f"{self.connections} open connections")
                accepted.close()
                continue
            self._by_address[address] += 1
            self._connecting.start(self._connect(accepted, address), "handshake")

    async def _wait_for_handshake_slot(self) -> None:
        """Wait for a handshake slot; slow handshakes of the most frequent address are aborted."""
        loop = asyncio.get_running_loop()
        while len(self._handshakes) >= MAX_HANDSHAKES:
            crowded = self._shaking.most_common(1)[0][0]
            slowest = next(item for item in self._handshakes.values() if item.address == crowded)
            left = slowest.started + HURRIED_SECONDS - loop.time()
            self._ended.clear()
            if left <= 0:
                with contextlib.suppress(OSError):
                    slowest.socket.shutdown(socket.SHUT_RDWR)
                left = _PAUSE_SECONDS
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), left)

    async def _connect(self, accepted: socket.socket, address: str) -> None:
        """Perform the TLS handshake and pass the connection to its protocol."""
        accepted.setblocking(False)
        loop = asyncio.get_running_loop()
        key, connected = object(), False
        self._handshakes[key] = _Handshake(address, loop.time(), accepted)
        self._shaking[address] += 1
        left = _Once(lambda: self._left(address))
        try:
            await loop.connect_accepted_socket(
                partial(self._protocol, address, left),
                accepted,
                ssl=self._context(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
            connected = True
        except OSError as error:  # includes ssl.SSLError
            self.failed_handshakes += 1
            self._error_log.report("http: TLS handshake error", address, error)
        finally:
            del self._handshakes[key]
            _decrement(self._shaking, address)
            self._ended.set()
            if not connected:
                accepted.close()
                left()

    def _protocol(self, address: str, left: Callable[[], None]) -> asyncio.Protocol:
        create = partial(Connection, self._server, address, left, self._error_log, idle_seconds=IDLE_SECONDS)
        if self._terms is None:
            return create()
        return Negotiation(partial(self._begin_http2, self._terms, address, left), create)

    def _begin_http2(self, terms: Terms, address: str, left: Callable[[], None]) -> asyncio.Protocol:
        from apiserver_stub.transport.http2.connection import Http2Connection

        def closed() -> None:
            self._http2.pop(connection, None)
            left()

        connection = Http2Connection(
            terms,
            address,
            self._handler,
            closed,
            partial(self._error_log.report, "Failed to parse HTTP request", address),
            idle_seconds=IDLE_SECONDS,
        )
        self._http2[connection] = None
        return connection

    def _end_idle(self) -> bool:
        """Close the longest idle connection of the most frequent address; return ``False`` if none is idle."""
        counts = self._by_address
        idle: list[Connection | Http2Connection] = [item for item in self._http2 if item.idle]
        idle += [item for item in self._server.connections if isinstance(item, Connection) and item.idle]
        if not idle:
            return False
        min(idle, key=lambda item: (-counts[item.address], item.unused_since)).force_close()
        return True

    def _left(self, address: str) -> None:
        _decrement(self._by_address, address)


async def _drain(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Wait for *tasks*, and cancel those that take too long."""
    running = [task for task in tasks if not task.done()]
    if running:
        _, late = await asyncio.wait(running, timeout=_DRAIN_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


class _Once:
    """Callable that runs an action only on its first call."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action

    def __call__(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()


def _decrement(counts: Counter[str], address: str) -> None:
    counts[address] -= 1
    if counts[address] <= 0:
        del counts[address]


def _bind(address: str, port: int, *, share_port: bool) -> list[socket.socket]:
    """Return the listening sockets, one per address family if *address* is empty."""
    if address:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [_listening(family, address, port, share_port)]
    for attempt in range(_PORT_ATTEMPTS):
        first = _listening(socket.AF_INET, "0.0.0.0", port, share_port)  # noqa: S104 - as configured
        if not _has_ipv6():
            return [first]
        try:
            return [first, _listening(socket.AF_INET6, "::", first.getsockname()[1], share_port)]
        except OSError:
            first.close()
            if port or attempt == _PORT_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _listening(family: int, address: str, port: int, share_port: bool) -> socket.socket:
    where: Any = (address, port)
    listening = socket.create_server(where, family=family, backlog=_BACKLOG, reuse_port=share_port)
    listening.setblocking(False)
    return listening


def _has_ipv6() -> bool:
    if not socket.has_ipv6:
        return False
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
