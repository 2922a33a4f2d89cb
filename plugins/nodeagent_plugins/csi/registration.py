"""Handler of CSI drivers that register with a socket, and the periodic update of their limits."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence

from nodeagent.base.aio import Clock
from nodeagent.base.aio.waker import Waker
from nodeagent.base.plugin_rpc import RpcError
from nodeagent.contracts.plugin_registry import RegisteredPlugin
from nodeagent.errors import NodeAgentError, PluginRegistrationError
from nodeagent_plugins.csi.driver_objects import DriverObjects
from nodeagent_plugins.csi.drivers import Driver, Drivers, NodeInfo
from nodeagent_plugins.csi.names import PREFIX, is_driver_name
from nodeagent_plugins.csi.node_objects import NodeObjectError, NodeObjects

_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(?:[-+].*)?", re.ASCII)
_SHORTEST_PERIOD = 10
_IDLE_SECONDS = 3600.0

_log = logging.getLogger(__name__)


class CsiRegistration:
    """:class:`~nodeagent.contracts.plugin_registry.PluginHandler` of CSI drivers.

    Volumes are mounted as soon as the driver is stored; the registration succeeds once Node and CSINode have its
    entries. Deregistration does not affect existing mounts.

    :param objects: ``None`` in standalone mode.
    """

    plugin_type = "CSIPlugin"

    def __init__(self, drivers: Drivers, objects: NodeObjects | None) -> None:
        self._drivers, self._objects = drivers, objects

    async def validate(self, plugin: RegisteredPlugin) -> None:
        attempt = f"validation failed for CSI Driver {plugin.name[:63]} at endpoint {plugin.endpoint}"
        if not is_driver_name(plugin.name):
            raise PluginRegistrationError(f"{attempt}: invalid driver name")
        version = highest_version(plugin.name, plugin.versions)
        known = self._drivers.find(plugin.name)
        if known is not None and known.version >= version:
            registered = ".".join(map(str, known.version))
            raise PluginRegistrationError(
                f'{attempt}: {PREFIX}ValidatePlugin for CSI driver "{plugin.name}" failed. Another driver with the '
                f'same name is already registered with a higher supported version: "{registered}"'
            )

    async def register(self, plugin: RegisteredPlugin) -> None:
        driver = Driver(plugin.name, plugin.endpoint, highest_version(plugin.name, plugin.versions))
        self._drivers.add(driver)
        try:
            info = await node_info(driver)
            if self._objects is not None:
                await self._objects.install(driver.name, info)
        except (RpcError, NodeAgentError, NodeObjectError) as error:
            await self._remove(driver)
            raise PluginRegistrationError(str(error)) from error
        except BaseException:
            self._drivers.remove(driver.name, driver.endpoint)
            raise

    async def deregister(self, plugin: RegisteredPlugin) -> None:
        self._drivers.remove(plugin.name, plugin.endpoint)
        if self._drivers.find(plugin.name) is not None or self._objects is None:
            return
        try:
            await self._objects.uninstall(plugin.name)
        except NodeObjectError as error:
            raise PluginRegistrationError(str(error)) from error

    async def _remove(self, driver: Driver) -> None:
        self._drivers.remove(driver.name, driver.endpoint)
        if self._objects is not None:
            try:
                await self._objects.uninstall(driver.name)
            except NodeObjectError as error:
                _log.error("Failed to unregister CSI driver", extra={"driver": driver.name, "err": str(error)})


class LimitRefresh:
    """Updates the volume limits of drivers in CSINode periodically, for drivers whose CSIDriver sets a period.

    :param drivers: the registered drivers.
    :param objects: the node's objects.
    """

    name = "CSI volume limits"

    def __init__(self, drivers: Drivers, specs: DriverObjects, objects: NodeObjects, clock: Clock) -> None:
        self._drivers, self._specs, self._objects, self._clock = drivers, specs, objects, clock
        self._waker = Waker(clock)
        drivers.changed = specs.changed = self._waker.wake

    async def run(self) -> None:
        """Refresh until cancelled."""
        due: dict[Driver, tuple[int, float]] = {}
        while True:
            now = self._clock.now()
            periods = {driver: self._period(driver) for driver in self._drivers}
            due = {
                driver: due[driver] if driver in due and due[driver][0] == period else (period, now + period)
                for driver, period in periods.items()
                if period
            }
            reached = [driver for driver, (_, at) in due.items() if at <= now]
            await asyncio.gather(*(self._refresh(driver) for driver in reached))
            for driver in reached:
                due[driver] = (periods[driver], self._clock.now() + periods[driver])
            earliest = min((at for _, at in due.values()), default=now + _IDLE_SECONDS)
            await self._waker.wait(max(0.0, earliest - self._clock.now()))

    async def refresh(self, name: str) -> None:
        """Update the limit of one driver now; failures are logged.

        :param name: the name of a driver; ignored if it is not registered.
        """
        driver = self._drivers.find(name)
        if driver is not None:
            await self._refresh(driver)

    def _period(self, driver: Driver) -> int:
        spec = self._specs.cached(driver.name)
        seconds = (spec.node_allocatable_update_period_seconds if spec else None) or 0
        return max(seconds, _SHORTEST_PERIOD) if seconds > 0 else 0

    async def _refresh(self, driver: Driver) -> None:
        try:
            await self._objects.update(driver.name, await node_info(driver))
        except (RpcError, NodeObjectError) as error:
            _log.error("Failed to update CSINode of driver", extra={"driver": driver.name, "err": str(error)})


async def node_info(driver: Driver) -> NodeInfo:
    """Return the driver's description of this node.

    :raises RpcError: the call failed.
    """
    async with driver.step() as step:
        return await step.info()


def highest_version(name: str, versions: Sequence[str]) -> tuple[int, ...]:
    """Return the highest version of the CSI specification that a driver supports and this client implements.

    :raises PluginRegistrationError: there is none.
    """
    attempt = f'{PREFIX}ValidatePlugin for CSI driver "{name}" failed. '
    if not versions:
        raise PluginRegistrationError(f"{attempt}Plugin returned an empty list for supported versions")
    parsed = []
    for text in versions:
        match = _VERSION.fullmatch(text)
        if match:
            parsed.append(tuple(int(number or 0) for number in match.groups()))
    supported = [version for version in parsed if version[0] <= 1]
    if not supported or max(supported)[0] != 1:
        listed = " ".join(f'"{text[:63]}"' for text in versions)
        raise PluginRegistrationError(f"{attempt}None of the versions specified [{listed}] are supported")
    return max(supported)
