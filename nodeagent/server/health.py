"""Health port: ``/healthz`` over plain HTTP, meant for clients on this host.

spec: config.healthzPort, config.healthzBindAddress
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, urlsplit

from nodeagent.base.aio import Clock, TaskOwner
from nodeagent.server.http1 import BadRequest, ServerSide
from nodeagent.server.listener import bind

_log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
REQUEST_SECONDS = 10.0
"""Time for a request to arrive, also the first one, after which the connection is closed."""
MAX_CONNECTIONS = 64
"""Maximum number of concurrent connections; further ones are closed."""

Check = Callable[[], str]
"""Returns an error message, or an empty text."""


class HealthServer:
    """Serves ``/healthz``: status 200 and ``ok``, or status 500 and the failed checks.

    :param checks: checks by name, such as ``pleg``; called at each request, so they must be cheap.
    """

    def __init__(self, address: str, port: int, checks: Mapping[str, Check], clock: Clock) -> None:
        self._address, self._port, self._checks, self._clock = address, port, checks, clock
        self.port = 0
        """The bound port, once :meth:`run` listens."""

    async def run(self) -> None:
        """Serve until cancelled; binding the port is retried every 5 seconds."""
        listening = await self._bind()
        async with TaskOwner("healthz") as tasks:

            def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                if len(tasks) >= MAX_CONNECTIONS:
                    writer.close()
                else:
                    tasks.start(self._serve(reader, writer), "connection")

            server = await asyncio.start_server(connected, sock=listening)
            self.port = int(listening.getsockname()[1])
            try:
                await asyncio.Event().wait()
            finally:
                server.close()

    async def _bind(self) -> socket.socket:
        failing = False
        while True:
            try:
                return bind(self._address, self._port)
            except OSError as error:
                if not failing:
                    failing = True
                    _log.error("Failed to start healthz server", extra={"port": self._port, "err": str(error)})
                await self._clock.sleep(RETRY_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the requests of one connection."""
        connection = ServerSide(reader, writer)
        with contextlib.closing(writer), contextlib.suppress(OSError, TimeoutError):
            while True:
                try:
                    async with asyncio.timeout(REQUEST_SECONDS):
                        request = await connection.request()
                except BadRequest as error:
                    await connection.respond(400, f"{error}\n")
                    return
                if request is None:
                    return
                status, text = self._response(*request)
                async with asyncio.timeout(REQUEST_SECONDS):
                    await connection.respond(status, text)

    def _response(self, method: str, target: str) -> tuple[int, str]:
        url = urlsplit(target)
        if url.path not in ("/healthz", "/healthz/ping"):
            return 404, "404 page not found\n"
        if method not in ("GET", "HEAD"):
            return 405, "405: Method Not Allowed\n"
        if url.path == "/healthz/ping":
            return 200, "ok"
        results = {name: check() for name, check in self._checks.items()}
        failed = [name for name, problem in results.items() if problem]
        if not failed and "verbose" not in parse_qs(url.query, keep_blank_values=True):
            return 200, "ok"
        lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in results.items()]
        lines.append("healthz check failed" if failed else "healthz check passed")
        return 500 if failed else 200, "\n".join(lines) + "\n"
