"""Server of local queries, on a Unix socket that only root can access."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.local import LOCAL_SOCKET, LocalQuery, LocalRequest, LocalResponse
from nodeagent.errors import NodeAgentError

REQUEST_BYTES = 256 * 1024
REQUEST_SECONDS = 30.0
MAX_CONNECTIONS = 16
"""Maximum number of concurrent connections; further ones are closed."""

_log = logging.getLogger(__name__)


class LocalServer:
    """Serves local queries, one per connection.

    :param queries: for equal names, the last one takes precedence.
    """

    def __init__(self, root: Path, queries: Iterable[LocalQuery]) -> None:
        self._path = root / LOCAL_SOCKET
        self._queries = {query.name: query for query in queries}

    async def run(self) -> None:
        """Serve until cancelled; if the socket cannot be created, log the error and serve nothing."""
        async with TaskOwner("local") as tasks:

            def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                if len(tasks) >= MAX_CONNECTIONS:
                    writer.close()
                else:
                    tasks.start(self._serve(reader, writer), "local query")

            try:
                listening = _listen(self._path)
            except OSError as error:
                fields = {"path": str(self._path), "err": error.strerror or str(error)}
                _log.warning("Failed to serve local queries", extra=fields)
                await asyncio.Event().wait()
                return
            server = await asyncio.start_unix_server(connected, sock=listening, limit=REQUEST_BYTES)
            try:
                await asyncio.Event().wait()
            finally:
                server.close()
                self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS) as limit:
                line = await reader.readline()
                allowed = _peer(writer) in (0, os.geteuid())
                denied = LocalResponse(error="permission denied: only root has access")
                response = await self._respond(line, limit) if allowed else denied
                writer.write(msgspec.json.encode(response) + b"\n")
                await writer.drain()
        except (OSError, ValueError, TimeoutError) as error:
            _log.debug("Failed to respond to local query", extra={"err": repr(error)})
        finally:
            writer.close()

    async def _respond(self, line: bytes, limit: asyncio.Timeout) -> LocalResponse:
        try:
            request = msgspec.json.decode(line, type=LocalRequest)
            query = self._queries.get(request.question)
            if query is None:
                known = ", ".join(sorted(self._queries))
                return LocalResponse(error=f'unknown query "{request.question}" (supported: {known})')
            limit.reschedule((limit.when() or 0) + query.seconds)
            arguments: Any = msgspec.json.decode(request.arguments, type=query.request)
            return LocalResponse(answer=msgspec.Raw(msgspec.json.encode(await query.handler(arguments))))
        except (msgspec.DecodeError, ValueError, NodeAgentError) as error:
            return LocalResponse(error=str(error))
        except Exception as error:  # Also errors of plugins; without a response, the client would wait for its timeout.
            _log.exception("Failed to handle local query", extra={"err": str(error)})
            return LocalResponse(error=f"internal error: {error!r}; see the agent's log")


def _listen(path: Path) -> socket.socket:
    """Return a listening socket at *path*, which is renamed to *path* after its mode has been set.

    :raises OSError: the socket cannot be created.
    """
    temporary = path.with_name(f".{path.name}")
    temporary.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(temporary))
        temporary.chmod(0o600)
        listening.listen(MAX_CONNECTIONS)
        temporary.replace(path)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def _peer(writer: asyncio.StreamWriter) -> int:
    """Return the user ID of the client."""
    connection = writer.get_extra_info("socket")
    _, user, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return int(user)
