"""Health port: ``/healthz`` over plain HTTP, meant for clients on this host.

spec: config.healthzPort, config.healthzBindAddress
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nodeagent.base.aio import Clock

if TYPE_CHECKING:
    from aiohttp import web

_log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0

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
        from aiohttp import web

        from nodeagent.server.listener import bind

        app = web.Application(client_max_size=1024)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/healthz/ping", _ping)
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=10, handler_cancellation=True)
        await runner.setup()
        failing = False
        try:
            while True:
                try:
                    await web.SockSite(runner, bind(self._address, self._port)).start()
                    break
                except OSError as error:
                    if not failing:
                        failing = True
                        _log.error("Failed to start healthz server", extra={"port": self._port, "err": str(error)})
                    await self._clock.sleep(RETRY_SECONDS)
            self.port = runner.addresses[0][1]
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        from aiohttp import web

        results = {name: check() for name, check in self._checks.items()}
        failed = [name for name, problem in results.items() if problem]
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in results.items()]
        lines.append("healthz check failed" if failed else "healthz check passed")
        return web.Response(status=500 if failed else 200, text="\n".join(lines) + "\n")


async def _ping(request: web.Request) -> web.Response:
    from aiohttp import web

    return web.Response(text="ok")
