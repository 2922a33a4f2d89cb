"""Devices of each resource, as their providers report them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nodeagent.contracts.devices import DeviceHealth, DeviceProvider, ProvidedDevice
from nodeagent.errors import DeviceError

MAX_DEVICES, MAX_ID = 100_000, 253
GRACE_SECONDS = 300.0
"""Time that the capacity of a resource is reported without its provider."""


@dataclass(slots=True)
class Resource:
    """One resource.

    :ivar provider: the provider that was added last; ``None`` after a restart of the agent, and once it is closed.
    :ivar connected: the provider has published its devices and still watches them.
    :ivar restored: number of devices before the restart of the agent, until the provider publishes.
    :ivar disconnected_at: monotonic time since which there is no list of the provider.
    :ivar error: reason why the provider is not connected.
    """

    name: str
    disconnected_at: float
    provider: DeviceProvider | None = None
    connected: bool = False
    devices: Mapping[str, ProvidedDevice] = field(default_factory=dict)
    restored: int | None = None
    listed_at: float | None = None
    error: str = ""
    removed: bool = False
    """The grace period is over; the resource is reported with a capacity of zero."""

    @property
    def healthy(self) -> set[str]:
        """Devices that can be allocated."""
        if not self.connected:
            return set()
        return {device.id for device in self.devices.values() if device.healthy}

    @property
    def nodes(self) -> dict[str, tuple[int, ...]]:
        """NUMA nodes of each device that has any."""
        return {device.id: tuple(device.numa_nodes) for device in self.devices.values() if device.numa_nodes}

    def capacity(self) -> int:
        """Return the number of devices to report."""
        if self.removed:
            return 0
        return len(self.devices) if self.restored is None else self.restored

    def allocatable(self, used: int) -> int:
        """Return the number of devices that the scheduler may use.

        Until the provider returns after a restart of the agent, they are those in use: nothing new is scheduled here.

        :param used: number of devices that containers have.
        """
        if self.restored is not None and not self.removed:
            return min(used, self.restored)
        return len(self.healthy)

    def health(self, id: str) -> DeviceHealth:
        """Return the health of a device; unknown without a current list that contains it."""
        device = self.devices.get(id) if self.connected else None
        if device is None:
            return DeviceHealth(id, "Unknown")
        return DeviceHealth(id, "Healthy" if device.healthy else "Unhealthy", device.message)

    def update(self, devices: Mapping[str, ProvidedDevice], now: float) -> set[str]:
        """Set the published devices; return those whose health has changed."""
        before = self.devices if self.connected else {}
        changed = {
            id
            for id in {*before, *devices}
            if id not in before
            or id not in devices
            or (before[id].healthy, before[id].message) != (devices[id].healthy, devices[id].message)
        }
        self.devices, self.listed_at, self.connected = devices, now, True
        self.restored, self.error, self.removed = None, "", False
        return changed

    def disconnect(self, now: float, error: str) -> None:
        """Record that the provider no longer reports its devices."""
        if self.connected:
            self.connected, self.disconnected_at = False, now
        self.error = error


def checked(resource: str, devices: Sequence[ProvidedDevice]) -> dict[str, ProvidedDevice]:
    """Return the devices of a list by ID.

    :raises DeviceError: the list is invalid.
    """
    if len(devices) > MAX_DEVICES:
        raise DeviceError(f"device plugin of {resource} lists more than {MAX_DEVICES} devices")
    found: dict[str, ProvidedDevice] = {}
    for device in devices:
        if not device.id or len(device.id) > MAX_ID or "\0" in device.id:
            raise DeviceError(
                f"device plugin of {resource} lists invalid device {device.id[:MAX_ID]!r}: "
                f"must have 1 to {MAX_ID} characters"
            )
        if device.id in found:
            raise DeviceError(f'device plugin of {resource} lists device "{device.id}" twice')
        if any(not 0 <= node < 4096 for node in device.numa_nodes):
            raise DeviceError(f'device plugin of {resource} lists device "{device.id}" with an invalid NUMA node')
        found[device.id] = device
    return found
