"""Connection listener with limits: total connections, connections per address, time until the first request.

A slow client occupies only one connection slot; for limits per request see :mod:`nodeagent.server.app`. Independent of
the HTTP library, which is imported at the first connection.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable

from nodeagent.base.aio import TaskOwner
from nodeagent.base.logging import v_level
from nodeagent.base.tls import TlsError

_log = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
MAX_CONNECTIONS_PER_ADDRESS = 256
FIRST_REQUEST_SECONDS = 10.0
BACKLOG = 128
_PAUSE_SECONDS = 0.5

MakeContext = Callable[[], Awaitable[ssl.SSLContext]]
MakeProtocol = Callable[[Callable[[], None]], Awaitable[asyncio.Protocol]]


class Listener:
    """Listens on one address and port.

    :param make: creates the protocol of a connection; its argument must be called when the connection is closed.
    :param tls: returns the TLS context of a connection; ``None`` is plain HTTP.
    """

    def __init__(self, address: str, port: int, make: MakeProtocol, tls: MakeContext | None = None) -> None:
        self._address, self._port, self._make, self._tls = address, port, make, tls
        self._socket: socket.socket | None = None
        self._by_address: Counter[str] = Counter()
        self._rejecting = False

    def open(self) -> int:
        """Bind and listen; return the port.

        :raises OSError: the port is in use, or the address is not assigned to this host.
        """
        self._socket = bind(self._address, self._port)
        return int(self._socket.getsockname()[1])

    async def run(self) -> None:
        """Accept connections until cancelled."""
        listening = self._socket
        assert listening is not None, "open() must be called first"
        loop = asyncio.get_running_loop()
        try:
            async with TaskOwner("connections", close_seconds=2.0) as tasks:
                while True:
                    try:
                        accepted, peer = await loop.sock_accept(listening)
                    except OSError as error:  # Out of file descriptors, or the client has disconnected.
                        _log.log(v_level(2), "Failed to accept connection", extra={"err": str(error)})
                        await asyncio.sleep(_PAUSE_SECONDS)
                        continue
                    if self._within_limits(str(peer[0])):
                        tasks.start(self._connect(accepted, str(peer[0])), "connect")
                    else:
                        accepted.close()
        finally:
            listening.close()

    def _within_limits(self, address: str) -> bool:
        full = self._by_address.total() >= MAX_CONNECTIONS
        if full or self._by_address[address] >= MAX_CONNECTIONS_PER_ADDRESS:
            if not self._rejecting:
                self._rejecting = True
                _log.warning("Rejecting new connections, limit reached", extra={"peer": address})
            return False
        self._rejecting = False
        self._by_address[address] += 1
        return True

    async def _connect(self, accepted: socket.socket, address: str) -> None:
        """Perform the TLS handshake within a time limit and start the protocol."""
        accepted.setblocking(False)
        loop = asyncio.get_running_loop()
        connected = False
        try:
            context = await self._tls() if self._tls is not None else None
            protocol = await self._make(lambda: self._release(address))
            limit = FIRST_REQUEST_SECONDS if context is not None else None
            await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=context, ssl_handshake_timeout=limit)
            connected = True
        except (OSError, TlsError) as error:  # Failed handshakes raise OSError.
            _log.log(v_level(2), "TLS handshake error", extra={"peer": address, "err": str(error)})
        finally:
            if not connected:
                accepted.close()
                self._release(address)

    def _release(self, address: str) -> None:
        self._by_address[address] -= 1
        if self._by_address[address] <= 0:
            del self._by_address[address]


def bind(address: str, port: int) -> socket.socket:
    """Return a listening socket; the unspecified address listens on all IP families of the host."""
    if address in ("0.0.0.0", "::") and socket.has_dualstack_ipv6():  # noqa: S104  compared, not bound
        bound = socket.create_server(
            ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG, reuse_port=False
        )
    else:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        bound = socket.create_server((address, port), family=family, backlog=BACKLOG)
    bound.setblocking(False)
    return bound
