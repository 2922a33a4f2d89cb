"""Tests for the health of the relist loop."""

from __future__ import annotations

import pytest

from nodeagent.pleg.health import LoopHealth
from nodeagent.testing import FakeClock


async def test_failures_and_their_effect_are_logged_once(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    health = LoopHealth("pleg", clock, 180)

    for _ in range(4):
        health.failed(RuntimeError("no response"))
        await clock.advance(100)
    assert health.problem == "pleg was last seen active 6m40s ago; threshold is 3m0s"
    assert caplog.messages == ["GenericPLEG: Unable to retrieve pods", "Skipping pod synchronization"]

    assert health.succeeded()
    assert health.problem == ""
