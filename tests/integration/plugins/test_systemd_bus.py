"""Tests for the systemd client over a real message bus: slices and jobs."""

# ruff: noqa: F821, UP037  (annotations are D-Bus signatures)

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from dbus_fast import DBusError
from dbus_fast.service import ServiceInterface, dbus_method, dbus_signal

from nodeagent_plugins.cgroups.files import CgroupError
from nodeagent_plugins.cgroups.limits import CgroupLimits
from nodeagent_plugins.cgroups.systemd_bus import SystemdBus
from nodeagent_plugins.cgroups.systemd_driver import limit_properties
from tests.integration.shutdown.logind import message_bus, serve

LIMITS = limit_properties(CgroupLimits(cpu_shares=512, memory_bytes=64 << 20, pids=50), unified=True)


class Manager(ServiceInterface):
    """The methods of ``org.freedesktop.systemd1.Manager`` for slices."""

    def __init__(self) -> None:
        super().__init__("org.freedesktop.systemd1.Manager")
        self.units: dict[str, dict[str, Any]] = {}
        self.forgotten: list[str] = []
        self.result = "done"
        self._jobs = 0

    @dbus_method()
    def Subscribe(self):
        return None

    @dbus_method()
    def StartTransientUnit(self, name: "s", mode: "s", properties: "a(sv)", aux: "a(sa(sv))") -> "o":
        if name in self.units:
            raise DBusError("org.freedesktop.systemd1.UnitExists", f"Unit {name} was already loaded")
        self.units[name] = {key: variant.value for key, variant in properties}
        return self._job(name)

    @dbus_method()
    def SetUnitProperties(self, name: "s", runtime: "b", properties: "a(sv)"):
        if "DefaultDependencies" in dict(properties):
            raise DBusError("org.freedesktop.systemd1.PropertyReadOnly", "Cannot set property")
        self.units[name] |= {key: variant.value for key, variant in properties}

    @dbus_method()
    def StopUnit(self, name: "s", mode: "s") -> "o":
        if self.units.pop(name, None) is None:
            raise DBusError("org.freedesktop.systemd1.NoSuchUnit", f"Unit {name} not loaded.")
        return self._job(name)

    @dbus_method()
    def ResetFailedUnit(self, name: "s"):
        self.forgotten.append(name)
        raise DBusError("org.freedesktop.systemd1.NoSuchUnit", f"Unit {name} not loaded.")

    @dbus_signal()
    def JobRemoved(self, number: int, job: str, unit: str, result: str) -> "uoss":
        return [number, job, unit, result]

    def _job(self, unit: str) -> str:
        """Queue a job, which completes after other jobs."""
        self._jobs += 1
        path = f"/org/freedesktop/systemd1/job/{self._jobs}"
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, self.JobRemoved, 0, path, "other.service", "failed")
        if self.result:
            loop.call_later(0.02, self.JobRemoved, self._jobs, path, unit, self.result)
        return path


@pytest.fixture
def address(tmp_path: Path):
    with message_bus(tmp_path) as found:
        yield found


@pytest_asyncio.fixture
async def systemd(address: str) -> AsyncIterator[Manager]:
    manager = Manager()
    bus = await serve(address, ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", manager))
    yield manager
    bus.disconnect()
    await bus.wait_for_disconnect()


@pytest_asyncio.fixture
async def client(address: str, systemd: Manager) -> AsyncIterator[SystemdBus]:
    made = SystemdBus(address)
    yield made
    await made.close()


async def test_slice_is_started_once_and_then_updated(client: SystemdBus, systemd: Manager) -> None:
    kind = [("DefaultDependencies", "b", False), ("Wants", "as", ["kubepods.slice"])]
    await client.start_slice("kubepods-poda.slice", [*kind, *LIMITS])
    more = limit_properties(CgroupLimits(pids=60), unified=True)
    await client.start_slice("kubepods-poda.slice", [*kind, *more])

    assert systemd.units == {
        "kubepods-poda.slice": {
            "DefaultDependencies": False,
            "Wants": ["kubepods.slice"],
            "CPUWeight": 20,
            "MemoryMax": 64 << 20,
            "TasksMax": 60,
        }
    }


async def test_slices_are_started_concurrently(client: SystemdBus, systemd: Manager) -> None:
    names = [f"kubepods-pod{number}.slice" for number in range(20)]
    await asyncio.gather(*(client.start_slice(name, LIMITS) for name in [*names, *names]))
    assert sorted(systemd.units) == sorted(names)


async def test_stop_waits_for_its_job_and_is_idempotent(client: SystemdBus, systemd: Manager) -> None:
    await client.start_slice("a.slice", [])
    await client.stop("a.slice")
    await client.stop("a.slice")
    assert systemd.units == {}
    assert systemd.forgotten == ["a.slice", "a.slice"]


async def test_failed_job_is_an_error(client: SystemdBus, systemd: Manager) -> None:
    systemd.result = "failed"
    with pytest.raises(CgroupError, match=r"systemd: start a\.slice: job result: failed"):
        await client.start_slice("a.slice", [])


async def test_rejected_request_is_an_error(client: SystemdBus) -> None:
    with pytest.raises(CgroupError, match=r"systemd: change gone\.slice: "):
        await client.set_properties("gone.slice", LIMITS)


async def test_lost_connection_is_reestablished(client: SystemdBus, systemd: Manager) -> None:
    await client.start_slice("a.slice", [])
    await client.close()
    await client.start_slice("b.slice", [])
    assert sorted(systemd.units) == ["a.slice", "b.slice"]


async def test_missing_bus_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CgroupError, match=r"systemd: stop a\.slice: "):
        await SystemdBus(f"unix:path={tmp_path / 'nowhere'}").stop("a.slice")
