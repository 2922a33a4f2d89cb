"""Answers what would be evicted, on a socket that only root can reach."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.eviction import EvictionPlan, PlanAnswer, PlanRequest
from nodeagent.errors import NodeAgentError

REQUEST_BYTES = 256 * 1024
REQUEST_SECONDS = 30.0

_log = logging.getLogger(__name__)


class PlanServer:
    """Serves plans, one a connection, for as long as the agent runs."""

    name = "plans"

    def __init__(self, socket: Path, plan: Callable[[PlanRequest], Awaitable[EvictionPlan]]) -> None:
        self._socket, self._plan = socket, plan

    async def run(self) -> None:
        """Serve until cancelled; a path that is too long for a socket is logged."""
        self._socket.unlink(missing_ok=True)
        async with TaskOwner(self.name) as tasks:

            def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                tasks.start(self._serve(reader, writer), "answer")

            try:
                server = await asyncio.start_unix_server(connected, str(self._socket), limit=REQUEST_BYTES)
                self._socket.chmod(0o600)
            except OSError as error:
                _log.warning("Plans of eviction are not served", extra={"socket": str(self._socket), "err": str(error)})
                await asyncio.Event().wait()
                return
            try:
                await asyncio.Event().wait()
            finally:
                server.close()
                self._socket.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await self._answer(await reader.readline())
                writer.write(msgspec.json.encode(answer) + b"\n")
                await writer.drain()
        except (OSError, ValueError, TimeoutError) as error:
            _log.debug("Plan of eviction not delivered", extra={"err": repr(error)})
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> PlanAnswer:
        try:
            return PlanAnswer(plan=await self._plan(msgspec.json.decode(line, type=PlanRequest)))
        except (msgspec.DecodeError, ValueError, NodeAgentError) as error:
            return PlanAnswer(error=str(error))
