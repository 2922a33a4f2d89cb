"""What is asked of logind over a real message bus, and what it has to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from dbus_fast.aio import MessageBus

from nodeagent.base.aio import SystemClock
from nodeagent.testing.clock import eventually
from nodeagent_plugins.shutdown.logind import Logind, LogindError
from tests.integration.shutdown.logind import LoginManager, SystemManager, message_bus, serve


class Machine:
    """A machine with a message bus, a logind and a systemd."""

    def __init__(self, directory: Path) -> None:
        self.drop_in = directory / "logind.conf.d" / "99-kubelet.conf"
        self.login = LoginManager(5)
        self.system = SystemManager(self.login, self.drop_in.parent)
        self.logind = Logind("kubelet", self.drop_in, SystemClock())
        self.bus: MessageBus

    @asynccontextmanager
    async def boot(self, directory: Path) -> AsyncIterator[None]:
        with message_bus(directory) as address:
            self.bus = await serve(
                address,
                ("org.freedesktop.login1", "/org/freedesktop/login1", self.login),
                ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", self.system),
            )
            try:
                yield
            finally:
                self.bus.disconnect()
                await self.bus.wait_for_disconnect()


@pytest_asyncio.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    built = Machine(tmp_path)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'bus.sock'}")
    async with built.boot(tmp_path):
        yield built
    built.login.close()


async def test_the_lock_delays_a_shutdown_until_it_is_given_back(machine: Machine) -> None:
    async with machine.logind.session() as session:
        await session.inhibit()
        assert machine.login.asked == [("shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay")]
        assert machine.login.held() == [True]

        await session.inhibit()
        await eventually(lambda: machine.login.held() == [False, True])  # the bus lets go of its own copy later

        session.release()
        await eventually(lambda: machine.login.held() == [False, False])


async def test_a_session_that_ends_gives_the_lock_back(machine: Machine) -> None:
    async with machine.logind.session() as session:
        await session.inhibit()

    await eventually(lambda: machine.login.held() == [False])


async def test_shutdowns_are_heard_of(machine: Machine) -> None:
    async with machine.logind.session() as session:
        await session.watch()
        machine.login.prepare(True)
        machine.login.prepare(False)

        heard = [await asyncio.wait_for(session.shutdowns.get(), 5) for _ in range(2)]

    assert heard == [True, False]


async def test_a_shutdown_that_is_under_way_is_heard_of_at_once(machine: Machine) -> None:
    machine.login.preparing = True

    async with machine.logind.session() as session:
        await session.watch()

        assert session.shutdowns.get_nowait() is True


async def test_a_bus_that_goes_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'bus.sock'}")
    with pytest.raises(LogindError, match="connect to the system's message bus"):
        async with machine.logind.session():
            pass

    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(AsyncExitStack())
        await bus.enter_async_context(machine.boot(tmp_path))
        session = await stack.enter_async_context(machine.logind.session())
        await session.watch()
        await bus.aclose()

        assert await asyncio.wait_for(session.shutdowns.get(), 5) is None


async def test_a_short_delay_is_raised_by_a_drop_in(machine: Machine) -> None:
    async with machine.logind.session() as session:
        await session.allow_delay(5)
        assert not machine.drop_in.exists()

        await session.allow_delay(30)

    assert machine.drop_in.read_text() == "[Login]\nInhibitDelayMaxSec=30\n"
    assert machine.drop_in.stat().st_mode & 0o777 == 0o644
    assert machine.system.killed == [("systemd-logind.service", "all", 1)]


async def test_a_delay_that_stays_short_is_an_error(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeagent_plugins.shutdown.logind._RELOAD_STEPS", 2)
    machine.system.obeys = False

    async with machine.logind.session() as session:
        with pytest.raises(LogindError, match="failed to raise the inhibit delay of logind to 30 s: it remains 5 s"):
            await session.allow_delay(30)
