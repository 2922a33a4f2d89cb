"""Takes connections, within limits: how many, how many from one address, how long until the first request.

A client that is slow or silent costs one place and nobody's time; see :mod:`nodeagent.server.app` for the limits of
a request itself.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable

from aiohttp import web

from nodeagent.base.aio import TaskOwner
from nodeagent.base.logging import v_level
from nodeagent.base.tls import TlsError

_log = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
MAX_CONNECTIONS_PER_ADDRESS = 256
FIRST_REQUEST_SECONDS = 10.0
IDLE_SECONDS = 90.0
BACKLOG = 128
_PAUSE_SECONDS = 0.5

MAX_LINE_BYTES = 128 * 1024
"""A request line may carry a command."""
MAX_HEADER_BYTES = 16 * 1024
MAX_HEADERS = 64

MakeContext = Callable[[], Awaitable[ssl.SSLContext]]


class Connection(web.RequestHandler):
    """One connection; closed when its first request does not come in time."""

    __slots__ = ("_first_request", "_gone")

    def __init__(self, server: web.Server, gone: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=IDLE_SECONDS,
            access_log=None,  # type: ignore[arg-type]
            lingering_time=2.0,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
        )
        self._gone = gone
        self._first_request: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._first_request = asyncio.get_running_loop().call_later(FIRST_REQUEST_SECONDS, self.force_close)

    def request_came(self) -> None:
        """Learn that a whole request head is there."""
        if self._first_request is not None:
            self._first_request.cancel()
            self._first_request = None

    def connection_lost(self, exc: BaseException | None) -> None:
        self.request_came()
        super().connection_lost(exc)
        gone, self._gone = self._gone, _nothing
        gone()


class Listener:
    """Listens on one address and port.

    :param make: makes the protocol of a connection, given what to call when it is gone.
    :param tls: gives the context of a connection; ``None`` is plain HTTP.
    """

    def __init__(
        self, address: str, port: int, make: Callable[[Callable[[], None]], Connection], tls: MakeContext | None = None
    ) -> None:
        self._address, self._port, self._make, self._tls = address, port, make, tls
        self._socket: socket.socket | None = None
        self._by_address: Counter[str] = Counter()
        self._refusing = False

    def open(self) -> int:
        """Bind and listen; return the port.

        :raises OSError: the port is taken, or the address is not of this machine.
        """
        self._socket = bind(self._address, self._port)
        return int(self._socket.getsockname()[1])

    async def run(self) -> None:
        """Take connections until cancelled."""
        listening = self._socket
        assert listening is not None, "open() comes first"
        loop = asyncio.get_running_loop()
        try:
            async with TaskOwner("connections", close_seconds=2.0) as tasks:
                while True:
                    try:
                        accepted, peer = await loop.sock_accept(listening)
                    except OSError as error:  # out of file descriptors, or a client that left at once
                        _log.log(v_level(2), "Connection cannot be taken", extra={"err": str(error)})
                        await asyncio.sleep(_PAUSE_SECONDS)
                        continue
                    if self._takes(str(peer[0])):
                        tasks.start(self._connect(accepted, str(peer[0])), "connect")
                    else:
                        accepted.close()
        finally:
            listening.close()

    def _takes(self, address: str) -> bool:
        full = self._by_address.total() >= MAX_CONNECTIONS
        if full or self._by_address[address] >= MAX_CONNECTIONS_PER_ADDRESS:
            if not self._refusing:
                self._refusing = True
                _log.warning("Too many connections, new ones are refused", extra={"peer": address})
            return False
        self._refusing = False
        self._by_address[address] += 1
        return True

    async def _connect(self, accepted: socket.socket, address: str) -> None:
        """Shake hands, within a limit, and leave the connection to its protocol."""
        accepted.setblocking(False)
        loop = asyncio.get_running_loop()
        connected = False
        try:
            context = await self._tls() if self._tls is not None else None
            protocol = self._make(lambda: self._left(address))
            limit = FIRST_REQUEST_SECONDS if context is not None else None
            await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=context, ssl_handshake_timeout=limit)
            connected = True
        except (OSError, TlsError) as error:  # handshakes that fail are among OSError
            _log.log(v_level(2), "Handshake failed", extra={"peer": address, "err": str(error)})
        finally:
            if not connected:
                accepted.close()
                self._left(address)

    def _left(self, address: str) -> None:
        self._by_address[address] -= 1
        if self._by_address[address] <= 0:
            del self._by_address[address]


def bind(address: str, port: int) -> socket.socket:
    """Return a listening socket; the unspecified address takes every family that this machine has."""
    if address in ("0.0.0.0", "::") and socket.has_dualstack_ipv6():  # noqa: S104  compared, not bound
        bound = socket.create_server(
            ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG, reuse_port=False
        )
    else:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        bound = socket.create_server((address, port), family=family, backlog=BACKLOG)
    bound.setblocking(False)
    return bound


def _nothing() -> None:
    pass
