"""Application of one port: created at the first connection, and replaced when the routes change.

aiohttp and the handlers need several MiB, and on many nodes no client connects.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nodeagent.contracts.server import Route

if TYPE_CHECKING:
    from aiohttp import web

    from nodeagent.server.access import Access
    from nodeagent.server.access_recorder import AccessRecorder

SHUTDOWN_SECONDS = 1.0


class PortApplication:
    """Creates the protocol of each connection of a port.

    :param routes: returns the routes of all plugins.
    :param access: authentication and authorization; ``None`` for the read-only port.
    :param recorder: records accesses to containers and logs.
    """

    def __init__(
        self,
        routes: Callable[[], Sequence[Route]],
        access: Access | None,
        *,
        debugging: bool,
        recorder: AccessRecorder,
    ) -> None:
        self._routes, self._access, self._debugging, self._recorder = routes, access, debugging, recorder
        self._runner: web.AppRunner | None = None
        self._retired: list[web.AppRunner] = []
        self._created = asyncio.Event()

    async def connect(self, on_close: Callable[[], None]) -> asyncio.Protocol:
        """Return the protocol of a new connection, once the application exists."""
        await self._created.wait()
        from nodeagent.server.connection import Connection

        assert self._runner is not None
        server = self._runner.server
        assert server is not None
        return Connection(server, on_close)

    async def create(self) -> None:
        """Create the application."""
        # In a thread, because the event loop would be blocked for 0.3 s.
        await asyncio.to_thread(importlib.import_module, "nodeagent.server.app")
        self._runner = await self._new_runner(self._routes())
        self._created.set()

    async def prepare(self, routes: Sequence[Route]) -> Callable[[], None]:
        """Create an application with other routes; return the function that uses it for new connections.

        Requests in progress end with the previous application, then their connections are closed.
        """
        if self._runner is None:
            return lambda: None
        runner = await self._new_runner(routes)

        def use() -> None:
            assert self._runner is not None
            self._retired = [each for each in self._retired if each.server is not None and each.server.connections]
            self._retired.append(self._runner)
            if self._runner.server is not None:
                self._runner.server.pre_shutdown()
            self._runner = runner

        return use

    async def close(self) -> None:
        """Close all connections."""
        for runner in (*self._retired, self._runner):
            if runner is not None:
                await runner.cleanup()

    async def _new_runner(self, routes: Sequence[Route]) -> web.AppRunner:
        from aiohttp import web

        from nodeagent.server.app import build_app

        runner = web.AppRunner(
            build_app(routes, access=self._access, debugging=self._debugging, recorder=self._recorder),
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        await runner.setup()
        return runner
