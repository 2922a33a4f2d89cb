"""Health of devices as reported by their drivers. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.base.aio import Clock
from nodeagent.base.structs import Struct
from nodeagent.contracts.claims import ClaimedDeviceHealth, ReportedHealth
from nodeagent.contracts.devices import DeviceHealth
from nodeagent.model.pod import Pod
from nodeagent_plugins.claims.pod_claims import ClaimUse
from nodeagent_plugins.claims.state import ClaimCache

UNKNOWN = "Unknown"
_MESSAGE_LIMIT = 1024
_Device = tuple[str, str]
"""Pool and name."""


class _Health(Struct, frozen=True):
    health: str
    message: str
    expires_at: float


class HealthCache:
    """Last reported health of the devices of each driver; older reports count as unknown."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._devices: dict[str, dict[_Device, _Health]] = {}

    def update(self, driver: str, devices: Sequence[ReportedHealth]) -> set[_Device]:
        """Replace the health of all devices of *driver*; return those whose health has changed."""
        now = self._clock.now()
        new = {
            (each.pool, each.device): _Health(each.health, _shortened(each.message), now + each.timeout_seconds)
            for each in devices
        }
        before = {device: self._current(driver, device) for device in new.keys() | self._devices.get(driver, {}).keys()}
        self._devices[driver] = new
        return {device for device, health in before.items() if health != self._current(driver, device)}

    def forget(self, driver: str) -> set[_Device]:
        """Drop the health of all devices of *driver*; return them."""
        return set(self._devices.pop(driver, {}))

    def next_expiry(self) -> float | None:
        """Return the time at which the next report expires, ``None`` if there is none."""
        return min((each.expires_at for found in self._devices.values() for each in found.values()), default=None)

    def expired(self) -> dict[str, set[_Device]]:
        """Return the devices whose reports have expired by driver, and mark them as unknown."""
        now, found = self._clock.now(), dict[str, set[_Device]]()
        for driver, devices in self._devices.items():
            for device, health in devices.items():
                if health.expires_at <= now:
                    devices[device] = _Health(UNKNOWN, "", float("inf"))
                    found.setdefault(driver, set()).add(device)
        return found

    def of_container(
        self, cache: ClaimCache, pod: Pod, uses: Sequence[ClaimUse], *, reported_only: bool = False
    ) -> list[ClaimedDeviceHealth]:
        """Return the health of the devices that a container uses.

        :param reported_only: omit devices of drivers that do not report health.
        """
        found = []
        for use in uses:
            entry = cache.find(pod.namespace, use.claim, pod.uid)
            if entry is None:
                continue
            devices = []
            for driver, device in entry.devices(use.request):
                if reported_only and driver not in self._devices:
                    continue
                health, message = self._current(driver, (device.pool, device.device))
                identifier = device.cdi_devices[0] if device.cdi_devices else f"{driver}/{device.pool}/{device.device}"
                devices.append(DeviceHealth(identifier, health, message))
            if devices:
                found.append(ClaimedDeviceHealth(_status_name(use), devices))
        return found

    def _current(self, driver: str, device: _Device) -> tuple[str, str]:
        health = self._devices.get(driver, {}).get(device)
        if health is None or health.expires_at <= self._clock.now():
            return UNKNOWN, ""
        return health.health, health.message


def _shortened(message: str) -> str:
    return message if len(message) <= _MESSAGE_LIMIT else f"{message[: _MESSAGE_LIMIT - 3]}..."


def _status_name(use: ClaimUse) -> str:
    """Return the name of an entry of ``allocatedResourcesStatus``."""
    if use.resource:
        return use.resource
    return f"claim:{use.name}/{use.request}" if use.request else f"claim:{use.name}"
