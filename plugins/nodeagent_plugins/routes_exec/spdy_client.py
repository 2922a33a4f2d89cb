"""SPDY connections to the runtime's streaming endpoint, for clients that use WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from urllib.parse import urlsplit

from nodeagent.base.spdy import Frame, Kind, Reader, Writer
from nodeagent.base.structs import Struct

CONNECT_SECONDS = 10.0
HEAD_SECONDS = 30.0
READ_BYTES = 64 * 1024
_MAX_ERROR_BYTES = 4096


class UpgradeFailed(Exception):
    """The runtime did not accept the connection.

    :param status: HTTP status for the client.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class RuntimeDisconnected(ConnectionError):
    """The runtime has closed the connection."""


class SpdyConnection(Struct, frozen=True):
    """Upgraded connection: what is read and written are SPDY frames."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    protocol: str
    """The subprotocol that the runtime selected; empty if it named none."""

    async def send(self, data: bytes) -> None:
        """Send *data* and wait while the write buffer is full.

        :raises RuntimeDisconnected: the connection is closed.
        """
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError as error:
            raise RuntimeDisconnected(str(error)) from error

    def close(self) -> None:
        self.writer.close()


async def open_spdy(url: str, protocols: Sequence[str]) -> SpdyConnection:
    """Connect to *url*, upgrade to SPDY/3.1 and offer *protocols*; redirects are not followed.

    :raises UpgradeFailed: the endpoint is unreachable, is not on this host, or rejects the upgrade.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise UpgradeFailed(502, "the runtime's streaming endpoint is not plain HTTP on this host")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    except (OSError, TimeoutError) as error:
        raise UpgradeFailed(502, f"the runtime's streaming endpoint is unreachable: {error}") from error
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"POST {target} HTTP/1.1", f"Host: {parts.netloc}", "Connection: Upgrade", "Upgrade: SPDY/3.1"]
    lines += [f"X-Stream-Protocol-Version: {protocol}" for protocol in protocols]
    try:
        writer.write(("\r\n".join([*lines, "Content-Length: 0"]) + "\r\n\r\n").encode())
        return SpdyConnection(reader, writer, await _accepted(reader))
    except BaseException:
        writer.close()
        raise


async def _accepted(reader: asyncio.StreamReader) -> str:
    """Return the selected subprotocol."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise UpgradeFailed(504, "the runtime's streaming endpoint did not respond in time") from None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
        raise UpgradeFailed(502, "the runtime's streaming endpoint sent no valid response") from error
    status_line, *lines = head.decode("latin-1").split("\r\n")
    words = status_line.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise UpgradeFailed(502, "the runtime's streaming endpoint sent a response that is not HTTP")
    if words[1] != "101":
        text = ""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(1):
                text = (await reader.read(_MAX_ERROR_BYTES)).decode(errors="replace").strip()
        raise UpgradeFailed(int(words[1]), f"the runtime responded with status {words[1]}: {text}")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if fields.get("upgrade", "").lower() != "spdy/3.1":
        raise UpgradeFailed(500, "unable to upgrade: missing upgrade headers in response")
    return fields.get("x-stream-protocol-version", "")


class SpdyStreams:
    """Client side of a connection: opens streams, sends data and yields received frames."""

    def __init__(self, connection: SpdyConnection) -> None:
        self._connection = connection
        self._reader, self._writer = Reader(), Writer()
        self._next = 1

    async def open(self, headers: Mapping[str, str]) -> int:
        """Open a stream and return its number."""
        number, self._next = self._next, self._next + 2
        await self._connection.send(self._writer.syn_stream(number, headers))
        return number

    async def send(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        await self._connection.send(self._writer.data(stream, data, fin=fin))

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield data and resets until the runtime closes the connection, and respond to pings.

        :raises SpdyError: the data is invalid.
        """
        while True:
            try:
                received = await self._connection.reader.read(READ_BYTES)
            except ConnectionError:
                return
            if not received:
                return
            for frame in self._reader.feed(received):
                if frame.kind == Kind.PING:
                    with contextlib.suppress(ConnectionError):
                        await self._connection.send(self._writer.ping(frame.data))
                elif frame.kind in (Kind.DATA, Kind.RST_STREAM):
                    yield frame
