"""Tests for the logind client over a real message bus."""

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


class Host:
    """Host with a message bus, logind and systemd."""

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
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    built = Host(tmp_path)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'bus.sock'}")
    async with built.boot(tmp_path):
        yield built
    built.login.close()


async def test_lock_delays_a_shutdown_until_it_is_released(host: Host) -> None:
    async with host.logind.session() as session:
        await session.inhibit()
        assert host.login.requests == [("shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay")]
        assert host.login.held() == [True]

        await session.inhibit()
        await eventually(lambda: host.login.held() == [False, True])  # The bus closes its copy later.

        session.release()
        await eventually(lambda: host.login.held() == [False, False])


async def test_closed_session_releases_the_lock(host: Host) -> None:
    async with host.logind.session() as session:
        await session.inhibit()

    await eventually(lambda: host.login.held() == [False])


async def test_shutdown_signal_is_received(host: Host) -> None:
    async with host.logind.session() as session:
        await session.watch()
        host.login.prepare(True)
        host.login.prepare(False)

        received = [await asyncio.wait_for(session.shutdowns.get(), 5) for _ in range(2)]

    assert received == [True, False]


async def test_shutdown_in_progress_is_detected_immediately(host: Host) -> None:
    host.login.preparing = True

    async with host.logind.session() as session:
        await session.watch()

        assert session.shutdowns.get_nowait() is True


async def test_lost_bus_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(tmp_path)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'bus.sock'}")
    with pytest.raises(LogindError, match="connect to the system's message bus"):
        async with host.logind.session():
            pass

    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(AsyncExitStack())
        await bus.enter_async_context(host.boot(tmp_path))
        session = await stack.enter_async_context(host.logind.session())
        await session.watch()
        await bus.aclose()

        assert await asyncio.wait_for(session.shutdowns.get(), 5) is None


async def test_short_delay_is_raised_by_a_drop_in(host: Host) -> None:
    async with host.logind.session() as session:
        await session.allow_delay(5)
        assert not host.drop_in.exists()

        await session.allow_delay(30)

    assert host.drop_in.read_text() == "[Login]\nInhibitDelayMaxSec=30\n"
    assert host.drop_in.stat().st_mode & 0o777 == 0o644
    assert host.system.killed == [("systemd-logind.service", "all", 1)]


async def test_delay_that_remains_short_is_an_error(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeagent_plugins.shutdown.logind._RELOAD_STEPS", 2)
    host.system.obeys = False

    async with host.logind.session() as session:
        with pytest.raises(LogindError, match="failed to raise the inhibit delay of logind to 30 s: it remains 5 s"):
            await session.allow_delay(30)
