"""Takes connections, within limits: how many, how many of them still shake hands, and how long that may take.

A client that is slow or silent costs one place. When places are short, whoever has held one longest without using it
gives way, first among the connections of the address that has most of them: so one machine does not shut others out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from apiserver_stub.transport.http2.negotiation import Negotiation, Terms
from nodeagent.base.aio import TaskOwner
from nodeagent.base.logging import v_level, verbose

if TYPE_CHECKING:
    from apiserver_stub.transport.http2.connection import Http2Connection

_log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 10.0
HURRIED_SECONDS = 3.0
"""How long a handshake may take while others wait for its place."""
MAX_HANDSHAKES = 256
MAX_CONNECTIONS = 4096
IDLE_SECONDS = 90.0
"""How long a connection stays without a request, and a new one until the head of its first is complete."""
_MAX_HEADERS, _MAX_HEADER_BYTES, _MAX_LINE_BYTES = 256, 16 << 10, 64 << 10
"""Bounds of a request's head: what is held of one is 4 MiB at most."""
_BACKLOG = 1024
_OTHER_FILES = 128
"""Open files that connections leave to the store, logs and outgoing connections."""
_PAUSE_SECONDS = 0.2
_PORT_ATTEMPTS = 8
_DRAIN_SECONDS = 5.0
_LINGERING_SECONDS = 10.0
"""How long the rest of a request is read that was answered before its end."""
_COMPLAINT_VERBOSITY = 2
_COMPLAINT_SECONDS = 1.0


class ThrottledConnectionLog:
    """Tells what clients do wrong, at a low level of detail: one line in a while, and how many went untold."""

    def __init__(self) -> None:
        self._next, self._untold = 0.0, 0

    def tell(self, message: str, peer: str | None, problem: object) -> None:
        if not verbose(_log, _COMPLAINT_VERBOSITY):
            return
        now = asyncio.get_running_loop().time()
        if now < self._next:
            self._untold += 1
            return
        facts = {"peer": peer, "err": " ".join(str(problem).split())[:200], "untold": self._untold}
        self._next, self._untold = now + _COMPLAINT_SECONDS, 0
        _log.log(v_level(_COMPLAINT_VERBOSITY), message, extra=facts)


class Connection(web.RequestHandler):
    """One connection of HTTP/1.1 whose handshake is done, or under way; or one stream of HTTP/2."""

    __slots__ = ("_complaints", "_gone", "address")

    def __init__(
        self,
        server: web.Server,
        address: str,
        gone: Callable[[], None],
        complaints: ThrottledConnectionLog,
        lingering_seconds: float = _LINGERING_SECONDS,
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=lingering_seconds,
            max_headers=_MAX_HEADERS,
            max_field_size=_MAX_HEADER_BYTES,
            max_line_size=_MAX_LINE_BYTES,
            auto_decompress=False,  # bodies are taken as they are
        )
        self.address, self._gone, self._complaints = address, gone, complaints

    @property
    def idle(self) -> bool:
        """Whether no request is under way, nor waits."""
        return self._waiter is not None and not self._messages

    @property
    def unused_since(self) -> float:
        """Return the moment of the last answer, or of the beginning, in any common count."""
        return self._next_keepalive_close_time

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._gone()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no request of HTTP in a line; faults of this server take the longer way."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        self._complaints.tell("Not a request of HTTP", self.address, exc.message)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun")
        response = web.Response(status=status, text=message)
        response.force_close()
        return response


@dataclass(frozen=True, slots=True)
class _Handshake:
    address: str
    begun: float
    socket: socket.socket


class Listener:
    """Listens on one port and hands connections to *server*.

    :param http2: on what terms clients may speak HTTP/2, which *context* must offer; ``None`` where they may not.
    """

    def __init__(self, server: web.Server, context: ssl.SSLContext, http2: Terms | None = None) -> None:
        self._server, self._context, self._terms = server, context, http2
        self._http2: set[Http2Connection] = set()
        self._sockets: list[socket.socket] = []
        self._handshakes: dict[object, _Handshake] = {}
        """Those under way, in the order of their beginning."""
        self._shaking: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._ended = asyncio.Event()
        self._complaints = ThrottledConnectionLog()
        self._accepting: TaskOwner = TaskOwner("listener")
        self._connecting: TaskOwner = TaskOwner("connections")
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = MAX_CONNECTIONS if files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, files - _OTHER_FILES)
        self.failed_handshakes = 0

    @property
    def connections(self) -> int:
        """How many connections there are, their handshakes done or under way."""
        return self._by_address.total()

    def open(self, address: str, port: int, *, share_port: bool = False) -> int:
        """Listen on *address*, an empty one means all of this machine; returns the port.

        :raises OSError: the port is taken, or the address is not of this machine.
        """
        self._sockets = _bind(address, port, share_port=share_port)
        for listening in self._sockets:
            self._accepting.start(self._accept(listening), "accept")
        return int(self._sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Take no more connections; those that are there stay, and clients of HTTP/2 hear that they should leave."""
        await self._accepting.close()
        for listening in self._sockets:
            listening.close()
        for connection in list(self._http2):
            connection.leave()

    async def close(self) -> None:
        """Take no more connections and end those that are there, after the requests under way."""
        await self.stop()
        await self._connecting.close()
        self._server.pre_shutdown()
        await self._server.shutdown(_DRAIN_SECONDS)
        for connection in list(self._http2):
            connection.force_close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._find_place()
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:  # out of open files, or a client that left at once
                self._complaints.tell("Connection cannot be taken", None, error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            address = str(peer[0])
            if self.connections >= self._most and not self._end_idle():
                self._complaints.tell("Too many connections", address, f"{self.connections} are open")
                accepted.close()
                continue
            self._by_address[address] += 1
            self._connecting.start(self._connect(accepted, address), "handshake")

    async def _find_place(self) -> None:
        """Wait until there is a place for one more handshake; the slow ones lose theirs."""
        loop = asyncio.get_running_loop()
        while len(self._handshakes) >= MAX_HANDSHAKES:
            crowded = self._shaking.most_common(1)[0][0]
            slowest = next(item for item in self._handshakes.values() if item.address == crowded)
            left = slowest.begun + HURRIED_SECONDS - loop.time()
            self._ended.clear()
            if left <= 0:
                with contextlib.suppress(OSError):
                    slowest.socket.shutdown(socket.SHUT_RDWR)
                left = _PAUSE_SECONDS
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), left)

    async def _connect(self, accepted: socket.socket, address: str) -> None:
        """Shake hands, and leave the connection to its protocol."""
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
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
            connected = True
        except OSError as error:  # what TLS complains of is among these
            self.failed_handshakes += 1
            self._complaints.tell("TLS handshake failed", address, error)
        finally:
            del self._handshakes[key]
            _less(self._shaking, address)
            self._ended.set()
            if not connected:
                accepted.close()
                left()

    def _protocol(self, address: str, left: Callable[[], None]) -> asyncio.Protocol:
        make = partial(Connection, self._server, address, left, self._complaints)
        if self._terms is None:
            return make()
        return Negotiation(partial(self._begin_http2, self._terms, address, left), make)

    def _begin_http2(self, terms: Terms, address: str, left: Callable[[], None]) -> asyncio.Protocol:
        from apiserver_stub.transport.http2.connection import Http2Connection

        def gone() -> None:
            self._http2.discard(connection)
            left()

        connection = Http2Connection(
            terms,
            address,
            lambda: Connection(self._server, address, lambda: None, self._complaints, lingering_seconds=0),
            gone,
            partial(self._complaints.tell, "Not a request of HTTP", address),
            idle_seconds=IDLE_SECONDS,
        )
        self._http2.add(connection)
        return connection

    def _end_idle(self) -> bool:
        """End the connection that is least missed; returns whether there is one."""
        counts = self._by_address
        idle: list[Connection | Http2Connection] = [item for item in self._http2 if item.idle]
        idle += [item for item in self._server.connections if isinstance(item, Connection) and item.idle]
        if not idle:
            return False
        min(idle, key=lambda item: (-counts[item.address], item.unused_since)).force_close()
        return True

    def _left(self, address: str) -> None:
        _less(self._by_address, address)


class _Once:
    """Does something the first time it is called."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action

    def __call__(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()


def _less(counts: Counter[str], address: str) -> None:
    counts[address] -= 1
    if counts[address] <= 0:
        del counts[address]


def _bind(address: str, port: int, *, share_port: bool) -> list[socket.socket]:
    """Return listening sockets, one a family where *address* means all."""
    if address:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [_listening(family, address, port, share_port)]
    for attempt in range(_PORT_ATTEMPTS):
        first = _listening(socket.AF_INET, "0.0.0.0", port, share_port)  # noqa: S104 - what was asked for
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
