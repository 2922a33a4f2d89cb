"""Contract tests for background loops."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.contracts.background import BackgroundLoop
from nodeagent.testing.clock import FakeClock

_STOP_SECONDS = 5.0


class BackgroundLoopContract:
    """Contract of :class:`BackgroundLoop`. Override the fixture ``loop``, which uses the fixture ``clock``."""

    @pytest.fixture
    async def clock(self) -> FakeClock:
        """The clock of the loop."""
        return FakeClock()

    @pytest.fixture
    def loop(self) -> BackgroundLoop:
        """The implementation to test."""
        raise NotImplementedError

    def test_name_is_not_empty(self, loop: BackgroundLoop) -> None:
        assert loop.name and loop.name == loop.name.strip()

    async def test_loop_runs_until_cancelled_and_can_be_restarted(self, loop: BackgroundLoop, clock: FakeClock) -> None:
        await clock.settle()  # From now on, the clock waits for the threads of the loop.
        for _ in range(2):
            task = asyncio.create_task(loop.run())
            await clock.advance(1)
            assert not task.done(), "the loop returned without being cancelled"
            task.cancel()
            await asyncio.wait([task], timeout=_STOP_SECONDS)
            assert task.cancelled(), "the loop suppressed its cancellation"
