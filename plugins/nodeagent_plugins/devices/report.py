"""Local query for the devices on this node, and their metrics."""

from __future__ import annotations

from collections.abc import Callable

from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.device_report import DeviceLine, DevicesReport, DevicesRequest, DeviceUser, ResourceLine
from nodeagent_plugins.devices import metrics
from nodeagent_plugins.devices.inventory import Resource
from nodeagent_plugins.devices.manager import Devices
from nodeagent_plugins.devices.reservations import Reservations
from nodeagent_plugins.devices.selection import in_order


class Report:
    """Combines resources, devices and the containers that have them."""

    def __init__(self, context: AgentContext, devices: Devices) -> None:
        self._context, self._devices = context, devices

    async def report(self, request: DevicesRequest) -> DevicesReport:
        """Return the selected resources and devices."""
        resources = self._devices.reservations.resources
        names = sorted(name for name in resources if request.resource in ("", name))
        lines = [device for name in names for device in self._lines(resources[name])]
        return DevicesReport(self._context.node_name, [self._resource(resources[name]) for name in names], lines)

    def _resource(self, resource: Resource) -> ResourceLine:
        now, listed = self._context.clock.now(), resource.listed_at
        return ResourceLine(
            resource=resource.name,
            plugin=resource.provider.endpoint if resource.provider is not None else "",
            connected=resource.connected,
            capacity=resource.capacity(),
            healthy=len(resource.healthy),
            allocated=len(self._devices.reservations.allocations.used(resource.name)),
            listed_seconds=None if listed is None else round(now - listed, 3),
            error=resource.error,
            waiting_pods=[
                pod.full_name
                for uid in self._devices.waiting(resource.name)
                if (pod := self._context.pods.get(uid)) is not None
            ],
        )

    def _lines(self, resource: Resource) -> list[DeviceLine]:
        users = self._users(resource.name)
        lines = []
        for id in in_order({*resource.devices, *users}):
            health, device = resource.health(id), resource.devices.get(id)
            lines.append(
                DeviceLine(
                    resource=resource.name,
                    id=id,
                    health=health.health,
                    message=health.message,
                    numa_nodes=list(device.numa_nodes) if device is not None else [],
                    users=users.get(id, []),
                )
            )
        return lines

    def _users(self, resource: str) -> dict[str, list[DeviceUser]]:
        found: dict[str, list[DeviceUser]] = {}
        for (uid, container), name, assignment in self._devices.reservations.allocations:
            if name != resource:
                continue
            pod = self._context.pods.get(uid)
            owners = (pod.metadata.owner_references or ()) if pod is not None else ()
            user = DeviceUser(
                namespace=pod.namespace if pod is not None else "",
                pod=pod.name if pod is not None else "",
                pod_uid=uid,
                container=container,
                owner=next((f"{each.kind}/{each.name}" for each in owners if each.controller), ""),
                allocated=assignment.response is not None,
            )
            for id in assignment.ids:
                found.setdefault(id, []).append(user)
        return found


def expose(reservations: Reservations, now: Callable[[], float]) -> None:
    """Expose the resources as metrics.

    :param now: returns the monotonic time in seconds.
    """
    metrics.DEVICES.sample = lambda: {
        (name, state): count
        for name, resource in reservations.resources.items()
        for state, count in (
            ("healthy", len(resource.healthy)),
            ("unhealthy", len(resource.devices) - len(resource.healthy)),
            ("allocated", len(reservations.allocations.used(name))),
        )
    }
    metrics.CONNECTED.sample = lambda: {
        (name,): int(resource.connected) for name, resource in reservations.resources.items()
    }
    metrics.LIST_AGE.sample = lambda: {
        (name,): now() - resource.listed_at
        for name, resource in reservations.resources.items()
        if resource.listed_at is not None
    }
