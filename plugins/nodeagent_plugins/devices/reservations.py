"""Reservation of devices for containers: the table of resources and assignments, and topology hints. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nodeagent.contracts.topology import Hint
from nodeagent.errors import DeviceError
from nodeagent.model.extended_resources import containers_in_order, requested_devices
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.devices.allocations import Allocations, Assignment
from nodeagent_plugins.devices.inventory import Resource
from nodeagent_plugins.devices.selection import Selection, candidates, device_hints


class Reservations:
    """Devices of the node and the containers that have them."""

    def __init__(self) -> None:
        self.resources: dict[str, Resource] = {}
        self.allocations = Allocations()

    def free(self, resource: Resource) -> frozenset[str]:
        """Return the healthy devices that no container has."""
        return resource.healthy - self.allocations.used(resource.name)

    def reserve(self, pod: Pod, container: Container, mask: Collection[int] | None) -> set[str]:
        """Reserve the devices of a container that it does not have yet, or none; return resources to wait for.

        Resources that were never registered are ignored: a scheduler extender may manage them.

        :param mask: NUMA nodes to prefer; ``None`` for any.
        :raises DeviceError: not enough healthy devices are available.
        """
        waiting: set[str] = set()
        reserved: dict[str, Assignment] = {}
        for name, count in requested_devices(container, pod).items():
            held = self.allocations.get(pod.uid, container.name, name)
            if held is not None:
                if len(held.ids) != count:
                    raise DeviceError(
                        f'pod "{pod.uid}" container "{container.name}" changed request for resource "{name}" '
                        f"from {len(held.ids)} to {count}"
                    )
                continue
            resource = self.resources.get(name)
            if resource is None:
                continue
            if resource.connected:
                reserved[name] = self._select(pod, container.name, resource, count, mask)
            elif not resource.removed:
                waiting.add(name)
            else:  # Without an error, the container would run without its devices.
                raise DeviceError(f"cannot allocate unregistered device {name}")
        for name, assignment in reserved.items():
            self.allocations.add(pod.uid, container.name, name, assignment)
        return waiting

    def _select(
        self, pod: Pod, container: str, resource: Resource, count: int, mask: Collection[int] | None
    ) -> Assignment:
        if not resource.healthy:
            raise DeviceError(f"no healthy devices present; cannot allocate unhealthy devices {resource.name}")
        reusable = self.allocations.reusable(pod, container, resource.name)
        free, nodes = self.free(resource), resource.nodes
        selection = candidates(free, reusable, count, nodes, mask, resource.ranks)
        chosen = selection.pick()
        if len(chosen) < count:
            raise DeviceError(
                f"requested number of devices unavailable for {resource.name}. "
                f"Requested: {count - min(len(reusable), count)}, Available: {len(free)}"
            )
        return Assignment(
            chosen,
            {id: nodes[id] for id in chosen if id in nodes},
            required=frozenset(reusable) & frozenset(chosen),
            hint=None if mask is None else frozenset(mask),
        )

    def is_aligned(self, pod: Pod, container: Container, mask: Collection[int]) -> bool:
        """Return whether each device of the container with NUMA nodes is close to one of *mask*."""
        held = self.allocations.of(pod.uid, container.name).values()
        return all(set(mask) & set(nodes) for each in held for nodes in each.nodes.values())

    def reselection(self, resource: Resource, assignment: Assignment) -> Selection:
        """Return the candidates of a reservation, for which the provider may have a preference.

        :raises DeviceError: too few of its devices are still healthy, and no others are available.
        """
        own = (set(assignment.ids) - assignment.required) & resource.healthy
        count = len(assignment.ids)
        free = self.free(resource) | own
        selection = candidates(free, assignment.required, count, resource.nodes, assignment.hint, resource.ranks)
        if len(selection.pick()) < count:
            raise DeviceError(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource.name}"
            )
        return selection

    def exchange(self, pod: Pod, container: str, resource: Resource, ids: Sequence[str]) -> None:
        """Set other devices of a reservation, also for later containers of the pod that were to reuse them."""
        assignment = self.allocations.of(pod.uid, container)[resource.name]
        dropped = [id for id in assignment.ids if id not in ids]
        added = [id for id in ids if id not in assignment.ids]
        renamed = dict(zip(dropped, added, strict=True))
        for _, name, each in self.allocations.of_pod(pod.uid):
            if name == resource.name and each.response is None and (each is assignment or each.required & set(dropped)):
                each.ids = tuple(renamed.get(id, id) for id in each.ids)
                each.required = frozenset(renamed.get(id, id) for id in each.required)
                each.nodes = {id: resource.nodes[id] for id in each.ids if id in resource.nodes}
        assignment.ids = tuple(ids)

    # --- hints ----------------------------------------------------------------------------------------------

    def container_hints(self, pod: Pod, container: Container) -> dict[str, list[Hint]]:
        """Return the topology hints of a container by resource; none for resources without NUMA nodes."""
        hints: dict[str, list[Hint]] = {}
        for name, count in requested_devices(container, pod).items():
            held = self.allocations.get(pod.uid, container.name, name)
            found: list[Hint] | None = None
            resource = self.resources.get(name)
            if held is not None:
                nodes = {**(resource.nodes if resource is not None else {}), **held.nodes}
                found = device_hints(nodes, (), held.ids, count) if len(held.ids) == count else []
            elif resource is not None and resource.connected:
                reusable = self.allocations.reusable(pod, container.name, name)
                found = device_hints(resource.nodes, self.free(resource), reusable, count)
            if found is not None:
                hints[name] = found
        return hints

    def pod_hints(self, pod: Pod) -> dict[str, list[Hint]]:
        """Return the topology hints of all containers together."""
        hints: dict[str, list[Hint]] = {}
        for name, count in pod_devices(pod).items():
            resource = self.resources.get(name)
            held = {
                id for _, each, assignment in self.allocations.of_pod(pod.uid) if each == name for id in assignment.ids
            }
            found: list[Hint] | None = None
            if held:
                nodes = dict(resource.nodes) if resource is not None else {}
                for _, each, assignment in self.allocations.of_pod(pod.uid):
                    nodes.update(assignment.nodes if each == name else {})
                found = device_hints(nodes, (), held, len(held))
            elif resource is not None and resource.connected:
                found = device_hints(resource.nodes, self.free(resource), (), count)
            if found is not None:
                hints[name] = found
        return hints


def pod_devices(pod: Pod) -> Mapping[str, int]:
    """Return the devices that the containers of a pod need together; sequential init containers share theirs."""
    init = pod.spec.init_containers or ()
    totals: dict[str, int] = {}
    for name in {name for container in containers_in_order(pod) for name in requested_devices(container, pod)}:
        largest = sidecars = 0
        for container in init:
            count = requested_devices(container, pod).get(name, 0)
            if container.restartable_init:
                sidecars += count
            else:
                largest = max(largest, sidecars + count)
        regular = sum(requested_devices(container, pod).get(name, 0) for container in pod.spec.containers)
        totals[name] = max(largest, sidecars + regular)
    return totals
