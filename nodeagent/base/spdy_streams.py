"""SPDY connections to the endpoint that streams a command: upgrade, streams and frames."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence

from nodeagent.base.spdy import Frame, Kind, Reader, Writer
from nodeagent.base.structs import Struct

HEAD_SECONDS = 30.0
READ_BYTES = 64 * 1024
_MAX_ERROR_BYTES = 4096
_STATUS = re.compile(r"[1-5]\d\d", re.ASCII)


class UpgradeFailed(Exception):
    """The endpoint did not accept the connection.

    :param status: HTTP status for the client.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Disconnected(ConnectionError):
    """The endpoint has closed the connection."""


class SpdyConnection(Struct, frozen=True):
    """Upgraded connection: what is read and written are SPDY frames."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    protocol: str
    """The subprotocol that the endpoint selected; empty if it named none."""

    async def send(self, data: bytes) -> None:
        """Send *data* and wait while the write buffer is full.

        :raises Disconnected: the connection is closed.
        """
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError as error:
            raise Disconnected(str(error)) from error

    def close(self) -> None:
        self.writer.close()


async def upgrade(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: Sequence[str], protocols: Sequence[str], peer: str
) -> SpdyConnection:
    """Upgrade a connection to SPDY/3.1 and offer *protocols*; redirects are not followed.

    :param head: request line and further header lines.
    :param peer: the endpoint in errors, such as ``the runtime's streaming endpoint``.
    :raises UpgradeFailed: the endpoint rejects the upgrade; the connection is closed.
    """
    lines = [*head, "Connection: Upgrade", "Upgrade: SPDY/3.1"]
    lines += [f"X-Stream-Protocol-Version: {protocol}" for protocol in protocols]
    try:
        text = "\r\n".join([*lines, "Content-Length: 0"]) + "\r\n\r\n"
        writer.write(text.encode("utf-8", "surrogateescape"))
        return SpdyConnection(reader, writer, await _accepted(reader, peer))
    except BaseException:
        writer.close()
        raise


async def _accepted(reader: asyncio.StreamReader, peer: str) -> str:
    """Return the selected subprotocol."""
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        raise UpgradeFailed(504, f"{peer} did not respond in time") from None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
        raise UpgradeFailed(502, f"{peer} sent no valid response") from error
    status_line, *lines = head.decode("latin-1").split("\r\n")
    words = status_line.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not _STATUS.fullmatch(words[1]):
        raise UpgradeFailed(502, f"{peer} sent a response that is not HTTP")
    if words[1] != "101":
        text = ""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(1):
                text = (await reader.read(_MAX_ERROR_BYTES)).decode(errors="replace").strip()
        raise UpgradeFailed(int(words[1]), f"unable to upgrade connection: {text}")
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
        """Yield data and resets until the endpoint closes the connection, and respond to pings.

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
