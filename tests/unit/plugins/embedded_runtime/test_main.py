"""Tests for the process of the embedded runtime."""

from __future__ import annotations

import asyncio

from nodeagent.base import memory_trim
from nodeagent_plugins.embedded_runtime import __main__ as main


async def test_free_memory_is_returned_while_the_runtime_serves(monkeypatch):
    loop, trims = asyncio.get_running_loop(), asyncio.Event()

    class Daemon:
        async def run(self, ready):
            ready()
            await asyncio.wait_for(trims.wait(), 10)

        def describe(self):
            return ""

    monkeypatch.setattr(memory_trim, "START_SECONDS", 0.0)
    monkeypatch.setattr(memory_trim, "trim", lambda: loop.call_soon_threadsafe(trims.set))

    await main._serve(Daemon(), lambda: None)
