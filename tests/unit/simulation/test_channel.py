"""Tests for replies of the simulated channel to the runtime."""

import asyncio

import pytest

from nodeagent.base.simulation.loop import SimulatedLoop
from nodeagent.simulation.channel import _settle


@pytest.fixture
def loop():
    loop = SimulatedLoop(1)
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()


def test_first_result_of_a_reply_counts(loop):
    reply, cancelled = loop.create_future(), loop.create_future()
    for result in (1, 2):
        _settle(reply, result)
    cancelled.cancel()
    _settle(cancelled, 3)
    assert reply.result() == 1 and cancelled.cancelled()
