"""Reporter of the devices that containers have."""

from __future__ import annotations

from nodeagent.contracts.pod_resources import AssignedDevice, AssignedResources
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.devices.reservations import Reservations
from nodeagent_plugins.devices.selection import in_order


class DeviceReporter:
    """:class:`~nodeagent.contracts.pod_resources.ResourceReporter` of the device manager."""

    name = "devices"

    def __init__(self, reservations: Reservations) -> None:
        self._reservations = reservations

    def container_resources(self, pod: Pod, container: Container) -> AssignedResources:
        held = self._reservations.allocations.of(pod.uid, container.name)
        return AssignedResources(
            [
                AssignedDevice(resource, id, tuple(assignment.nodes.get(id, ())))
                for resource, assignment in sorted(held.items())
                for id in assignment.ids
            ]
        )

    def allocatable_resources(self) -> AssignedResources:
        return AssignedResources(
            [
                AssignedDevice(name, id, tuple(resource.devices[id].numa_nodes))
                for name, resource in sorted(self._reservations.resources.items())
                for id in in_order(resource.healthy)
            ]
        )
