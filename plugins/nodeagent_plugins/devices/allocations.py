"""Devices that containers have: reserved at admission, allocated once the provider has responded. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import field

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.device_responses import DeviceResponse
from nodeagent.model.extended_resources import containers_in_order
from nodeagent.model.pod import Pod
from nodeagent_plugins.devices.checkpoint import Entry

ContainerKey = tuple[str, str]
"""UID of the pod and name of the container."""


class Assignment(MutableStruct):
    """Devices of one resource for one container."""

    ids: tuple[str, ...]
    nodes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """NUMA nodes of each device that has any."""
    response: DeviceResponse | None = None
    """Response of the provider; ``None`` until the devices are allocated."""
    required: frozenset[str] = frozenset()
    """Devices that must not be exchanged for others that the provider prefers."""
    hint: frozenset[int] | None = None
    """NUMA nodes to prefer; ``None`` for any."""
    stored: Entry | None = None
    """Entry of the checkpoint, once the devices are allocated."""


class Allocations:
    """Assignments of all containers."""

    def __init__(self) -> None:
        self._held: dict[ContainerKey, dict[str, Assignment]] = {}
        self._pods: dict[str, dict[str, None]] = {}
        """Names of the containers with assignments, by UID of their pod."""

    def __iter__(self) -> Iterator[tuple[ContainerKey, str, Assignment]]:
        for key, held in self._held.items():
            for resource, assignment in held.items():
                yield key, resource, assignment

    @property
    def pods(self) -> Collection[str]:
        """UIDs of the pods with devices."""
        return self._pods.keys()

    def of(self, uid: str, container: str) -> Mapping[str, Assignment]:
        """Return the assignments of a container by resource."""
        return self._held.get((uid, container), {})

    def get(self, uid: str, container: str, resource: str) -> Assignment | None:
        return self.of(uid, container).get(resource)

    def of_pod(self, uid: str) -> Iterator[tuple[str, str, Assignment]]:
        """Yield container, resource and assignment of a pod."""
        for container in self._pods.get(uid, ()):
            for resource, assignment in self.of(uid, container).items():
                yield container, resource, assignment

    def add(self, uid: str, container: str, resource: str, assignment: Assignment) -> None:
        self._held.setdefault((uid, container), {})[resource] = assignment
        self._pods.setdefault(uid, {})[container] = None

    def release(self, uid: str) -> Mapping[str, Collection[str]]:
        """Release the devices of a pod and return them by resource."""
        released: dict[str, set[str]] = {}
        for container in self._pods.pop(uid, ()):
            for resource, assignment in self._held.pop((uid, container)).items():
                released.setdefault(resource, set()).update(assignment.ids)
        return released

    def used(self, resource: str) -> set[str]:
        """Return the devices of a resource that containers have."""
        return {id for held in self._held.values() if resource in held for id in held[resource].ids}

    def resources(self) -> set[str]:
        """Return the resources of which containers have devices."""
        return {resource for held in self._held.values() for resource in held}

    def reusable(self, pod: Pod, container: str, resource: str) -> set[str]:
        """Return the devices of the pod's earlier init containers that *container* may use as well.

        A sidecar or regular container keeps its devices for itself.
        """
        found: set[str] = set()
        init = {each.name for each in pod.spec.init_containers or () if not each.restartable_init}
        for each in containers_in_order(pod):
            if each.name == container:
                return found
            assignment = self.get(pod.uid, each.name, resource)
            if assignment is not None:
                found = found | set(assignment.ids) if each.name in init else found - set(assignment.ids)
        return found
