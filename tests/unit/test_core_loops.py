"""Tests for the loops of the core: what ends all of them, and how they are cancelled."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from nodeagent import core_loops
from nodeagent.core_loops import CoreLoops


async def _returns() -> None:
    pass


async def _fails() -> None:
    raise OSError("in use")


async def _runs(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("cancelled")


async def _ignores_cancellation(release: asyncio.Event) -> None:
    while not release.is_set():
        with contextlib.suppress(asyncio.CancelledError):
            await release.wait()


@pytest.mark.parametrize("may_end", [False, True])
async def test_failed_loop_ends_all(may_end, caplog):
    loops = CoreLoops()
    loops.start("server", _fails(), may_end=may_end)
    with pytest.raises(OSError, match="in use"):
        await loops.wait()
    assert loops.stopping
    assert [(record.message, record.loop) for record in caplog.records] == [
        ("Failed to run core loop, shutting down", "server")
    ]


async def test_loop_that_returns_ends_all_unless_it_may():
    loops = CoreLoops()
    loops.start("registration", _returns(), may_end=True)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not loops.stopping
    loops.start("lease", _returns())
    await loops.wait()
    assert loops.stopping


async def test_only_named_loops_are_cancelled():
    loops, first, second = CoreLoops(), [], []
    loops.start("first", _runs(first))
    loops.start("second", _runs(second))
    await asyncio.sleep(0)
    await loops.cancel(["first", "unknown"])
    assert (first, second) == (["cancelled"], [])
    assert list(loops.names) == ["second"]
    await loops.cancel(loops.names)
    assert second == ["cancelled"]


async def test_loop_that_ignores_its_cancellation_is_reported(monkeypatch, caplog):
    monkeypatch.setattr(core_loops, "STOP_SECONDS", 0.01)
    loops, release = CoreLoops(), asyncio.Event()
    loops.start("stuck", _ignores_cancellation(release))
    await asyncio.sleep(0)
    await loops.cancel(["stuck"])
    assert [(record.message, record.loop) for record in caplog.records] == [("Failed to stop loop in time", "stuck")]
    release.set()
