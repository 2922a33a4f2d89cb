"""HTTP/1.1 on a Unix socket, without TLS."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from apiserver_stub.transport.connection_log import ThrottledConnectionLog
from apiserver_stub.transport.http import Handler
from apiserver_stub.transport.http1.connection import Connection, create_server

_OWNER_ONLY = 0o600
_IDLE_SECONDS = 90.0
_DRAIN_SECONDS = 1.0


async def serve_unix(handler: Handler, path: Path, stack: AsyncExitStack) -> None:
    """Serve requests on the socket *path*, which only the owner can open, until *stack* closes.

    :raises OSError: the socket cannot be opened.
    """
    server, error_log = create_server(handler), ThrottledConnectionLog()

    def connect() -> Connection:
        return Connection(server, "", lambda: None, error_log, idle_seconds=_IDLE_SECONDS)

    await asyncio.to_thread(path.unlink, missing_ok=True)
    listening = await asyncio.get_running_loop().create_unix_server(connect, path)

    async def close() -> None:
        listening.close()
        server.pre_shutdown()
        await server.shutdown(_DRAIN_SECONDS)

    stack.push_async_callback(close)
    await asyncio.to_thread(path.chmod, _OWNER_ONLY)
