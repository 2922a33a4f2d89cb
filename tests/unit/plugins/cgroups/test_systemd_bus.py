"""Tests for the D-Bus client of systemd, with a bus in memory."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import dbus_fast.aio
import pytest
from dbus_fast import MessageType

from nodeagent_plugins.cgroups import systemd_bus
from nodeagent_plugins.cgroups.files import CgroupError
from nodeagent_plugins.cgroups.systemd_bus import SystemdBus

JOBS = ("StartTransientUnit", "StopUnit")
MANAGER = "org.freedesktop.systemd1.Manager"


class Systemd:
    """systemd behind a bus: records calls, and completes each job immediately.

    :ivar errors: error names by method; an exception is raised instead.
    :ivar results: results of jobs by unit; ``None`` if a job does not complete.
    """

    def __init__(self):
        self.calls, self.connections, self.errors, self.results, self.text = [], [], {}, {}, ["text"]

    def bus(self, _address, bus_type):
        bus = Bus(self)
        self.connections.append(bus)
        return bus

    def methods(self):
        return [member for member, _ in self.calls]


class Bus:
    """One connection."""

    def __init__(self, systemd):
        self.systemd, self.connected, self.handler = systemd, False, None

    async def connect(self):
        if isinstance(error := self.systemd.errors.get("connect"), BaseException):
            raise error
        self.connected = True
        return self

    def add_message_handler(self, handler):
        self.handler = handler

    def disconnect(self):
        self.connected = False

    async def wait_for_disconnect(self):
        pass

    async def call(self, message):
        self.systemd.calls.append((message.member, message.body))
        error = self.systemd.errors.get(message.member)
        if isinstance(error, BaseException):
            raise error
        if error:
            return SimpleNamespace(message_type=MessageType.ERROR, error_name=error, body=self.systemd.text)
        if message.member in JOBS:
            asyncio.get_running_loop().call_soon(self.complete, message.body[0])
        return SimpleNamespace(message_type=MessageType.METHOD_RETURN)

    def complete(self, unit, *, member="JobRemoved", interface=MANAGER, signature="uoss"):
        result = self.systemd.results.get(unit, "done")
        if result is not None:
            body = [1, "/job", unit, result] if signature == "uoss" else [1, "/job"]
            self.handler(SimpleNamespace(member=member, interface=interface, signature=signature, body=body))


@pytest.fixture
def systemd(monkeypatch):
    fake = Systemd()
    monkeypatch.setattr(dbus_fast.aio, "MessageBus", fake.bus)
    monkeypatch.setattr(systemd_bus, "_CALL_SECONDS", 5)
    return fake


@pytest.fixture
async def bus(systemd):
    return SystemdBus()


async def test_slice_is_started_on_one_connection(bus, systemd):
    await bus.start_slice("a.slice", [("Description", "s", "text")])
    await bus.start_slice("b.slice", [])

    assert systemd.methods() == ["AddMatch", "Subscribe", "StartTransientUnit", "StartTransientUnit"]
    assert len(systemd.connections) == 1


async def test_existing_slice_gets_the_properties_that_can_be_changed(bus, systemd):
    systemd.errors["StartTransientUnit"] = "org.freedesktop.systemd1.UnitExists"

    await bus.start_slice("a.slice", [("Description", "s", "text"), ("TasksMax", "t", 7)])

    member, (unit, runtime, properties) = systemd.calls[-1]
    assert (member, unit, runtime) == ("SetUnitProperties", "a.slice", True)
    assert [(name, value.value) for name, value in properties] == [("TasksMax", 7)]


async def test_missing_unit_is_stopped(bus, systemd):
    systemd.errors |= dict.fromkeys(("StopUnit", "ResetFailedUnit"), "org.freedesktop.systemd1.NoSuchUnit")
    await bus.stop("a.slice")
    assert systemd.methods()[-2:] == ["StopUnit", "ResetFailedUnit"]


async def test_other_errors_are_raised_with_their_text_or_name(bus, systemd):
    systemd.errors["StopUnit"] = "org.freedesktop.systemd1.UnitExists"
    with pytest.raises(CgroupError, match=r"systemd: stop a.slice: text"):
        await bus.stop("a.slice")
    systemd.text = []
    with pytest.raises(CgroupError, match=r"systemd: stop a.slice: org.freedesktop.systemd1.UnitExists"):
        await bus.stop("a.slice")


async def test_failed_job_is_an_error(bus, systemd):
    systemd.results["a.slice"] = "timeout"
    with pytest.raises(CgroupError, match=r"systemd: stop a\.slice: job result: timeout"):
        await bus.stop("a.slice")
    systemd.results["a.slice"] = "skipped"
    await bus.stop("a.slice")


async def test_second_job_of_a_unit_starts_after_the_first(bus, systemd):
    systemd.results["a.slice"] = None
    tasks = [asyncio.create_task(bus.stop("a.slice")) for _ in range(2)]
    while "StopUnit" not in systemd.methods():
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert systemd.methods().count("StopUnit") == 1

    systemd.results.clear()
    systemd.connections[0].complete("a.slice")
    await asyncio.gather(*tasks)

    assert systemd.methods().count("StopUnit") == 2


@pytest.mark.parametrize(
    "other",
    [{"member": "JobNew"}, {"interface": "org.example.Manager"}, {"signature": "uo"}, {"unit": "b.slice"}],
)
async def test_other_signals_do_not_complete_a_job(bus, systemd, other):
    systemd.results["a.slice"] = None
    task = asyncio.create_task(bus.stop("a.slice"))
    while "StopUnit" not in systemd.methods():
        await asyncio.sleep(0)

    await asyncio.sleep(0)
    systemd.results.clear()
    systemd.connections[0].complete(**{"unit": "a.slice", **other})
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()

    systemd.connections[0].complete("a.slice")
    systemd.connections[0].complete("a.slice")
    await task


async def test_lost_connection_is_opened_again(bus, systemd):
    await bus.stop("a.slice")
    systemd.connections[0].connected = False
    await bus.stop("a.slice")
    assert len(systemd.connections) == 2


@pytest.mark.parametrize("step", ["connect", "AddMatch", "Subscribe"])
@pytest.mark.parametrize(("error", "text"), [(EOFError(), "timed out"), (OSError("refused"), "refused")])
async def test_connection_without_subscription_is_not_used(bus, systemd, step, error, text):
    systemd.errors[step] = error
    with pytest.raises(CgroupError, match=f"systemd: stop a.slice: {text}"):
        await bus.stop("a.slice")
    assert not systemd.connections[0].connected

    del systemd.errors[step]
    await bus.stop("a.slice")
    assert len(systemd.connections) == 2


@pytest.mark.parametrize("step", ["AddMatch", "Subscribe"])
async def test_connection_with_a_rejected_subscription_is_not_used(bus, systemd, step):
    systemd.errors[step] = "org.freedesktop.DBus.Error.AccessDenied"
    with pytest.raises(CgroupError, match=f"systemd: stop a.slice: {step}: org.freedesktop.DBus.Error.AccessDenied"):
        await bus.stop("a.slice")
    assert not systemd.connections[0].connected
    assert systemd.methods()[-1] == step


async def test_job_that_does_not_complete_is_an_error(bus, systemd, monkeypatch):
    await bus.stop("a.slice")
    monkeypatch.setattr(systemd_bus, "_CALL_SECONDS", 0.01)
    systemd.results["a.slice"] = None
    with pytest.raises(CgroupError, match=r"systemd: stop a\.slice: timed out waiting for the job"):
        await bus.stop("a.slice")


async def test_closed_client_disconnects_once(bus, systemd):
    await bus.close()
    await bus.stop("a.slice")
    await bus.close()
    await bus.close()
    assert not systemd.connections[0].connected
