"""Devices of each resource, as their providers report them. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from msgspec import field

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.devices import DeviceHealth, DeviceProvider, ProvidedDevice
from nodeagent.errors import DeviceError
from nodeagent_plugins.devices.selection import in_order

MAX_DEVICES, MAX_ID = 100_000, 253
GRACE_SECONDS = 300.0
"""Time that the capacity of a resource is reported without its provider."""


class Resource(MutableStruct):
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

    healthy: frozenset[str] = frozenset()
    """Devices that can be allocated."""
    nodes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """NUMA nodes of each device that has any."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    """Position of each device in the natural order of their IDs."""

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
        self.healthy = frozenset(device.id for device in devices.values() if device.healthy)
        self.nodes = {device.id: tuple(device.numa_nodes) for device in devices.values() if device.numa_nodes}
        if self.ranks.keys() != devices.keys():
            self.ranks = {id: rank for rank, id in enumerate(in_order(devices))}
        self.restored, self.error, self.removed = None, "", False
        return changed

    def disconnect(self, now: float, error: str) -> None:
        """Record that the provider no longer reports its devices."""
        if self.connected:
            self.connected, self.disconnected_at, self.healthy = False, now, frozenset()
        self.error = error


def expire(resources: Iterable[Resource], now: float, wait_seconds: float) -> tuple[list[Resource], float]:
    """Remove the devices of resources without provider after the grace period.

    :param wait_seconds: time that pods may wait for a provider after a restart of the agent.
    :returns: the expired resources, and the seconds until the next one is due.
    """
    expired, due = [], inf
    for resource in resources:
        if resource.connected or resource.removed:
            continue
        returning = resource.restored is not None  # Its pods may wait for the complete time.
        left = resource.disconnected_at + (max(GRACE_SECONDS, wait_seconds) if returning else GRACE_SECONDS) - now
        if left > 0:
            due = min(due, left)
            continue
        resource.removed, resource.restored, resource.devices = True, None, {}
        resource.nodes, resource.ranks = {}, {}
        expired.append(resource)
    return expired, due


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
