"""D-Bus client for systemd slices."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nodeagent_plugins.cgroups.files import CgroupError
from nodeagent_plugins.cgroups.systemd_driver import Property

if TYPE_CHECKING:
    from dbus_fast import Message
    from dbus_fast.aio import MessageBus

_NAME = "org.freedesktop.systemd1"
_PATH = "/org/freedesktop/systemd1"
_MANAGER = "org.freedesktop.systemd1.Manager"
_EXISTS = "org.freedesktop.systemd1.UnitExists"
_UNKNOWN = "org.freedesktop.systemd1.NoSuchUnit"
_CALL_SECONDS = 30.0
_SUCCESSFUL = ("done", "skipped")
_CHANGEABLE = frozenset(
    {
        "BlockIOAccounting",
        "CPUAccounting",
        "CPUQuotaPerSecUSec",
        "CPUQuotaPeriodUSec",
        "CPUShares",
        "CPUWeight",
        "IOAccounting",
        "MemoryAccounting",
        "MemoryHigh",
        "MemoryLimit",
        "MemoryMax",
        "MemoryMin",
        "TasksAccounting",
        "TasksMax",
    }
)
"""Properties that can be changed on an existing unit."""


class SystemdBus:
    """Connection to the system bus, opened by the first call and reopened after it is lost.

    :param address: address of the bus if it is not the system bus.
    """

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._bus: MessageBus | None = None
        self._connecting = asyncio.Lock()
        self._jobs: dict[str, asyncio.Future[str]] = {}

    async def start_slice(self, unit: str, properties: Sequence[Property]) -> None:
        """Start a transient slice and wait for it; an existing slice is updated.

        :raises CgroupError: systemd is unreachable, returns an error or times out.
        """
        body = [unit, "replace", _variants(properties), []]
        known = await self._job(f"start {unit}", unit, "StartTransientUnit", "ssa(sv)a(sa(sv))", body, _EXISTS)
        if known:
            await self.set_properties(unit, [each for each in properties if each[0] in _CHANGEABLE])

    async def set_properties(self, unit: str, properties: Sequence[Property]) -> None:
        """Change the properties of a unit until the next boot.

        :raises CgroupError: systemd is unreachable, returns an error or times out.
        """
        await self._call(f"change {unit}", "SetUnitProperties", "sba(sv)", [unit, True, _variants(properties)])

    async def stop(self, unit: str) -> None:
        """Stop a unit with all its processes and wait for the job; a missing unit is ignored.

        :raises CgroupError: systemd is unreachable, returns an error or times out.
        """
        await self._job(f"stop {unit}", unit, "StopUnit", "ss", [unit, "replace"], _UNKNOWN)
        await self._call(f"reset {unit}", "ResetFailedUnit", "s", [unit], _UNKNOWN)

    async def close(self) -> None:
        """Disconnect; safe to call again."""
        bus, self._bus = self._bus, None
        if bus is not None and bus.connected:
            bus.disconnect()
            await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]

    async def _job(self, attempt: str, unit: str, member: str, signature: str, body: list[Any], fine: str) -> bool:
        """Queue a job and wait for it; return whether systemd responded with the error *fine*."""
        while (other := self._jobs.get(unit)) is not None:  # A second job for a unit replaces the first.
            await asyncio.wait([other])
        done = self._jobs[unit] = asyncio.get_running_loop().create_future()
        try:
            if await self._call(attempt, member, signature, body, fine):
                return True
            async with asyncio.timeout(_CALL_SECONDS):
                result = await done
        except TimeoutError as error:
            raise CgroupError(f"systemd: {attempt}: timed out waiting for the job") from error
        finally:
            self._jobs.pop(unit, None)
            done.cancel()
        if result not in _SUCCESSFUL:
            raise CgroupError(f"systemd: {attempt}: job result: {result}")
        return False

    async def _call(self, attempt: str, member: str, signature: str, body: list[Any], fine: str = "") -> bool:
        """Call systemd's manager; return whether it responded with the error *fine*."""
        from dbus_fast import Message, MessageType

        try:
            async with asyncio.timeout(_CALL_SECONDS):
                bus = await self._connected()
                message = Message(_NAME, _PATH, _MANAGER, member, signature=signature, body=body)
                response = await bus.call(message)
        except (OSError, EOFError, TimeoutError) as error:
            raise CgroupError(f"systemd: {attempt}: {str(error) or 'timed out'}") from error
        if response is None or response.message_type is not MessageType.ERROR:
            return False
        if fine and response.error_name == fine:
            return True
        text = response.body[0] if response.body else response.error_name
        raise CgroupError(f"systemd: {attempt}: {text}")

    async def _connected(self) -> MessageBus:
        from dbus_fast import BusType, Message, MessageType
        from dbus_fast.aio import MessageBus

        async with self._connecting:
            if self._bus is None or not self._bus.connected:
                bus = MessageBus(self._address, bus_type=BusType.SYSTEM)
                rule = f"type='signal',interface='{_MANAGER}',member='JobRemoved',path='{_PATH}'"
                driver = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
                try:
                    await bus.connect()
                    bus.add_message_handler(self._on_message)
                    for request in (
                        Message(*driver, "AddMatch", signature="s", body=[rule]),
                        Message(_NAME, _PATH, _MANAGER, "Subscribe"),
                    ):
                        response = await bus.call(request)
                        if response is not None and response.message_type is MessageType.ERROR:
                            raise OSError(f"{request.member}: {response.error_name}")
                except BaseException:
                    bus.disconnect()
                    raise
                self._bus = bus
            return self._bus

    def _on_message(self, message: Message) -> None:
        if message.member != "JobRemoved" or message.interface != _MANAGER or message.signature != "uoss":
            return
        _, _, unit, result = message.body
        waiting = self._jobs.get(unit)
        if waiting is not None and not waiting.done():
            waiting.set_result(result)


def _variants(properties: Sequence[Property]) -> list[list[Any]]:
    from dbus_fast import Variant

    return [[name, Variant(signature, value)] for name, signature, value in properties]
