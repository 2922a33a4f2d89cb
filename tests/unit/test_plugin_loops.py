"""Tests for the background loops of plugins: health checks of those that fail."""

from __future__ import annotations

import asyncio

from nodeagent.plugin_loops import PluginLoops
from nodeagent.testing import FakeClock


class Server:
    name, health_check, failure = "server", "example", "the server does not run"

    def __init__(self):
        self.fails = True

    async def run(self):
        if self.fails:
            raise OSError("in use")
        await asyncio.Event().wait()


class Unchecked:
    name = "unchecked"

    async def run(self):
        raise OSError("in use")


async def test_failed_loop_fails_its_health_check():
    clock, server = FakeClock(), Server()
    loops = PluginLoops([("plugin", server), ("plugin", Unchecked())], clock)
    checks = loops.health_checks()
    assert list(checks) == ["example"]
    assert checks["example"]() == ""

    running = asyncio.create_task(loops.run())
    await clock.advance(0)
    assert checks["example"]() == "the server does not run: failed, restarting: OSError('in use')"
    server.fails = False
    await clock.advance(2)

    assert checks["example"]() == ""
    running.cancel()
    await asyncio.wait({running})
