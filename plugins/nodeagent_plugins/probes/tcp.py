"""TCP probes and the connections of HTTP probes."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct

from nodeagent.base.release import OLDEST
from nodeagent.base.structs import Struct
from nodeagent_plugins.probes.outcome import Outcome, OutcomeKind

USER_AGENT = f"kube-probe/{OLDEST}"
"""User agent of probes on a node of the oldest release."""
_LINGER = struct.pack("ii", 1, 1)


class Connection(Struct, frozen=True):
    """An open connection; must be closed with one of the methods."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def close(self) -> None:
        """Close the connection gracefully after a response."""
        # Closing with a linger frees the socket after a second instead of a minute, but waits for the peer's
        # acknowledgment; it is used only for a peer on this node.
        sock = self.writer.get_extra_info("socket")
        if sock is not None and _is_local(self.writer):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        self.writer.close()

    def abort(self) -> None:
        """Reset the connection, because the peer may be unreachable."""
        self.writer.transport.abort()


async def open_connection(host: str, port: int, secure: ssl.SSLContext | None = None) -> Connection:
    """Open a connection; the caller sets a timeout.

    :raises OSError: the connection or the TLS handshake failed.
    """
    return Connection(*await asyncio.open_connection(host, port, ssl=secure))


async def probe_tcp(host: str, port: int, timeout_seconds: float) -> Outcome:
    """Succeed if the peer accepts a connection."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout_seconds):
            connection = await open_connection(host, port)
    except TimeoutError:
        return Outcome(OutcomeKind.FAILURE, f"dial tcp {where}: i/o timeout")
    except OSError as error:
        return Outcome(OutcomeKind.FAILURE, dial_error(error, where))
    except UnicodeError:  # Not a valid host name.
        return Outcome(OutcomeKind.FAILURE, dial_error(socket.gaierror(), where))
    connection.close()
    return Outcome(OutcomeKind.SUCCESS)


def dial_error(error: OSError, where: str) -> str:
    """Return the upstream message for a failed connection."""
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {where.rpartition(':')[0] or where}: no such host"
    text = os.strerror(error.errno).lower() if error.errno else str(error)
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return f"read tcp {where}: {text}"
    return f"dial tcp {where}: connect: {text}"


def _is_local(writer: asyncio.StreamWriter) -> bool:
    """Return whether both addresses belong to this host; an adjacent pod address counts."""
    peer, own = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
    return bool(peer and own) and neighbors(peer[0], own[0])


def neighbors(one: str, other: str) -> bool:
    """Return whether two addresses are equal or differ only in the last group."""
    mark = ":" if ":" in one else "."
    return one == other or (mark in other and one.rpartition(mark)[0] == other.rpartition(mark)[0])
