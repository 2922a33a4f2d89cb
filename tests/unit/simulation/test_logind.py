"""Tests for the simulated logind, with the client of the agent."""

import asyncio
import os
from contextlib import asynccontextmanager
from unittest.mock import patch

import dbus_fast.aio
import pytest

from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.loop import SimulatedLoop
from nodeagent.base.simulation.trace import Trace
from nodeagent.simulation.logind import DELAY_SECONDS, SimulatedLogind
from nodeagent_plugins.shutdown.logind import Logind, LogindError


@pytest.fixture
def simulation(tmp_path):
    """Run a coroutine function with logind, and return its result."""
    loop = SimulatedLoop(1)
    asyncio.set_event_loop(loop)
    logind = SimulatedLogind(loop, Trace(loop.time))

    @asynccontextmanager
    async def session():
        async with Logind("nodeagent", tmp_path / "drop-in", SimulatedClock(loop)).session() as opened:
            await opened.watch()
            yield opened

    def run(test):
        with patch.object(dbus_fast.aio, "MessageBus", logind.bus):
            return loop.run_until_complete(test(logind, session))

    yield run
    asyncio.set_event_loop(None)
    loop.close()


async def shut_down(logind, seconds):
    """Announce a shutdown; return whether a lock was released before it, and after which time, or nothing."""
    loop, found = asyncio.get_running_loop(), []
    started = loop.time()
    assert logind.prepare(lambda released: found.append((released, round(loop.time() - started, 1))))
    await asyncio.sleep(seconds)
    return found


def test_node_without_a_lock_shuts_down_immediately(simulation):
    async def test(logind, session):
        return await shut_down(logind, 100)

    assert simulation(test) == [(False, 0.5)]


def test_lock_delays_the_shutdown_until_it_is_released(simulation):
    async def test(logind, session):
        async with session() as opened:
            await opened.inhibit()
            assert logind.delayed
            asyncio.get_running_loop().call_later(20.1, opened.release)
            return await shut_down(logind, 100)

    assert simulation(test) == [(True, 20.5)]


def test_delay_is_limited(simulation):
    async def test(logind, session):
        async with session() as opened:
            await opened.allow_delay(int(DELAY_SECONDS))
            await opened.inhibit()
            return await shut_down(logind, 100)

    assert simulation(test) == [(False, DELAY_SECONDS)]


def test_client_receives_the_shutdown_and_its_cancellation(simulation):
    async def test(logind, session):
        async with session() as opened:
            await opened.inhibit()
            asyncio.get_running_loop().call_later(3, logind.cancel)
            found = await shut_down(logind, 100)
            return found, [opened.shutdowns.get_nowait() for _ in range(opened.shutdowns.qsize())]

    assert simulation(test) == ([], [True, False])


def test_shutdown_in_progress_is_received_by_a_new_client(simulation):
    async def test(logind, session):
        logind.prepare(lambda _: None)
        assert not logind.prepare(lambda _: None)
        async with session() as opened:
            return opened.shutdowns.get_nowait()

    assert simulation(test) is True


def test_lost_connection_is_received_and_the_lock_remains(simulation):
    async def test(logind, session):
        async with session() as opened:
            await opened.inhibit()
            logind.disconnect()
            await asyncio.sleep(1)
            return opened.shutdowns.get_nowait(), logind.delayed

    assert simulation(test) == (None, True)


def test_bus_that_is_down_rejects_connections(simulation):
    async def test(logind, session):
        logind.down = True
        async with session():
            pass

    with pytest.raises(LogindError, match="connect to the system's message bus: no bus"):
        simulation(test)


def test_crash_of_the_client_releases_its_lock(simulation):
    async def test(logind, session):
        async with session() as opened:
            await opened.inhibit()
            lock, opened._lock = opened._lock, None
            logind.forget_clients()
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.close(lock)
            return logind.delayed

    assert simulation(test) is False
