"""Unix sockets of this process that lead through a dialer, for clients that open their connections themselves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from apiserver_stub.egress.dialing import Dialer, host_and_port
from nodeagent.base.aio import TaskOwner

_log = logging.getLogger(__name__)

_READ_BYTES = 256 * 1024
_CONNECT_SECONDS = 10.0


class LocalSockets:
    """Sockets in a private directory, one per destination."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._directory = tempfile.TemporaryDirectory(prefix="apiserver-egress-")  # mode 0700
        self._servers: list[asyncio.Server] = []
        self._tasks = TaskOwner("egress")

    async def open(self, host: str, port: int) -> Path:
        """Return a socket whose connections lead to *host* and *port*."""
        path = Path(self._directory.name) / str(len(self._servers))
        loop = asyncio.get_running_loop()
        accept = partial(self._accept, host, port)
        self._servers.append(await loop.create_unix_server(lambda: _stream(accept), str(path)))
        return path

    async def close(self) -> None:
        """Close the sockets and their connections."""
        for server in self._servers:
            server.close()
        await self._tasks.close()
        await asyncio.to_thread(self._directory.cleanup)

    def _accept(self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self._tasks.start(self._carry(host, port, reader, writer), "connection")
        except RuntimeError:  # closed
            writer.transport.abort()

    async def _carry(self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        connected = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await self._dialer.connect(lambda: _stream(lambda *ends: connected.set_result(ends)), host, port, None)
                far_reader, far_writer = await connected
        except (OSError, TimeoutError) as error:
            _log.info("Failed to connect", extra={"address": host_and_port(host, port), "err": error})
            writer.transport.abort()
            return
        directions = [
            asyncio.ensure_future(_pass(reader, far_writer)),
            asyncio.ensure_future(_pass(far_reader, writer)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in directions:
                task.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            for end in (writer, far_writer):
                end.close()


def _stream(
    accept: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None],
) -> asyncio.StreamReaderProtocol:
    reader = asyncio.StreamReader()
    return asyncio.StreamReaderProtocol(reader, accept)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()
