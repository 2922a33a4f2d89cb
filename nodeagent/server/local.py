"""Answers commands on the same machine, on a socket that only root can use."""

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
CONNECTIONS = 16
"""How many are answered at once; one more is hung up on."""

_log = logging.getLogger(__name__)


class LocalServer:
    """Answers questions, one a connection, for as long as the agent runs.

    :param questions: of two with one name the later is used.
    """

    def __init__(self, root: Path, questions: Iterable[LocalQuery]) -> None:
        self._path = root / LOCAL_SOCKET
        self._questions = {question.name: question for question in questions}

    async def run(self) -> None:
        """Serve until cancelled; a place where no socket can be made is logged, and nothing is served."""
        async with TaskOwner("local") as tasks:

            def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                if len(tasks) >= CONNECTIONS:
                    writer.close()
                else:
                    tasks.start(self._serve(reader, writer), "answer")

            try:
                listening = _listen(self._path)
            except OSError as error:
                place = str(self._path)
                _log.warning("Commands are not answered", extra={"socket": place, "err": error.strerror or str(error)})
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
            async with asyncio.timeout(REQUEST_SECONDS):
                line = await reader.readline()
                allowed = _peer(writer) in (0, os.geteuid())
                answer = await self._answer(line) if allowed else LocalResponse(error="only root is answered")
                writer.write(msgspec.json.encode(answer) + b"\n")
                await writer.drain()
        except (OSError, ValueError, TimeoutError) as error:
            _log.debug("Command not answered", extra={"err": repr(error)})
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> LocalResponse:
        try:
            request = msgspec.json.decode(line, type=LocalRequest)
            question = self._questions.get(request.question)
            if question is None:
                known = ", ".join(sorted(self._questions))
                return LocalResponse(
                    error=f'this agent does not know the question "{request.question}" (it knows {known})'
                )
            arguments: Any = msgspec.json.decode(request.arguments, type=question.request)
            return LocalResponse(answer=msgspec.Raw(msgspec.json.encode(await question.handler(arguments))))
        except (msgspec.DecodeError, ValueError, NodeAgentError) as error:
            return LocalResponse(error=str(error))
        except Exception as error:  # a plugin's answer or our own slip: who asked shall not take it for a hanging agent
            _log.exception("Command failed unexpectedly", extra={"err": str(error)})
            return LocalResponse(error=f"the agent failed at it: {error!r}; its log tells where")


def _listen(path: Path) -> socket.socket:
    """Return a socket at *path*; nobody else can connect at any moment, because it is named once its mode is right.

    :raises OSError: there can be none.
    """
    aside = path.with_name(f".{path.name}")
    aside.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(aside))
        aside.chmod(0o600)
        listening.listen(CONNECTIONS)
        aside.replace(path)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def _peer(writer: asyncio.StreamWriter) -> int:
    """Return the user at the other end."""
    connection = writer.get_extra_info("socket")
    _, user, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return int(user)
