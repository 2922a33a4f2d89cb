"""What every loop does that the agent runs for a plugin."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.contracts.background import BackgroundLoop
from nodeagent.testing.clock import FakeClock

_STOP_SECONDS = 5.0


class BackgroundLoopContract:
    """Fixture to provide: ``loop``, working with the fixture ``clock``."""

    @pytest.fixture
    async def clock(self) -> FakeClock:
        """The clock of the loop."""
        return FakeClock()

    @pytest.fixture
    def loop(self) -> BackgroundLoop:
        """The implementation."""
        raise NotImplementedError

    def test_has_a_name(self, loop: BackgroundLoop) -> None:
        assert loop.name and loop.name == loop.name.strip()

    async def test_runs_until_it_is_cancelled_and_can_be_started_again(
        self, loop: BackgroundLoop, clock: FakeClock
    ) -> None:
        for _ in range(2):
            running = asyncio.create_task(loop.run())
            await clock.advance(1)
            assert not running.done(), "it ended by itself"
            running.cancel()
            await asyncio.wait([running], timeout=_STOP_SECONDS)
            assert running.cancelled(), "it swallowed its cancellation"
