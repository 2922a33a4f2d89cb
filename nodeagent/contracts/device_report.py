"""Report of the devices on this node, for ``nodeagent devices``."""

from __future__ import annotations

import msgspec

from nodeagent.model.wire import WireStruct

DEVICES_QUERY = "devices"
"""Name of the local query."""


class DevicesRequest(WireStruct, frozen=True):
    """Selects devices; an empty field selects all."""

    resource: str = ""


class DeviceUser(WireStruct, frozen=True):
    """A container that has a device."""

    namespace: str = ""
    pod: str = ""
    """Empty if the pod is not desired, for example while it terminates."""
    pod_uid: str = msgspec.field(default="", name="podUID")
    container: str = ""
    owner: str = ""
    """Kind and name of the pod's controller; empty without one."""
    allocated: bool = False
    """False while the devices are reserved, before their plugin has responded."""


class DeviceLine(WireStruct, frozen=True):
    """One device; devices that the plugin does not list any more are included while containers have them."""

    resource: str
    id: str
    health: str
    """``Healthy``, ``Unhealthy`` or ``Unknown``."""
    message: str = ""
    numa_nodes: list[int] = msgspec.field(default_factory=list)
    users: list[DeviceUser] = msgspec.field(default_factory=list)


class ResourceLine(WireStruct, frozen=True):
    """One resource and its plugin."""

    resource: str
    plugin: str
    """Socket or name of the plugin; empty if none is registered."""
    connected: bool
    capacity: int
    healthy: int
    allocated: int
    listed_seconds: float | None = None
    """Time since the last list of devices."""
    error: str = ""
    """Reason why the plugin is not connected."""
    waiting_pods: list[str] = msgspec.field(default_factory=list)
    """Pods that wait for the plugin, as ``namespace/name``."""


class DevicesReport(WireStruct, frozen=True):
    """Resources and devices, by name."""

    node: str
    resources: list[ResourceLine]
    devices: list[DeviceLine]
