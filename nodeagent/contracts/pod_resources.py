"""Contracts of the resources that are assigned to containers, as monitoring agents and network plugins query them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nodeagent.base.structs import Struct
from nodeagent.model.pod import Container, Pod


class AssignedDevice(Struct, frozen=True):
    """A device of an extended resource."""

    resource: str
    device_id: str
    numa_nodes: Sequence[int] = ()


class AssignedMemory(Struct, frozen=True):
    """Memory on NUMA nodes."""

    type: str
    """``memory`` or a resource of huge pages."""
    size_bytes: int
    numa_nodes: Sequence[int] = ()


class ClaimedDevice(Struct, frozen=True):
    """A device that a driver has allocated for a claim."""

    driver: str
    pool: str
    device: str
    cdi_devices: Sequence[str] = ()
    """Qualified CDI names."""
    share_id: str | None = None


class AssignedClaim(Struct, frozen=True):
    """A resource claim that a container uses."""

    name: str
    namespace: str
    devices: Sequence[ClaimedDevice] = ()


class AssignedResources(Struct, frozen=True):
    """Resources of a container, or those of the node that containers can use."""

    devices: Sequence[AssignedDevice] = ()
    cpus: Sequence[int] = ()
    """Exclusive CPUs."""
    memory: Sequence[AssignedMemory] = ()
    claims: Sequence[AssignedClaim] = ()


class ResourceReporter(Protocol):
    """Reports resources of one kind. The methods must not block, since they are called while pods are started."""

    name: str

    def container_resources(self, pod: Pod, container: Container) -> AssignedResources:
        """Return the resources of a container.

        :param pod: an admitted pod.
        :param container: one of its containers.
        """
        ...

    def allocatable_resources(self) -> AssignedResources:
        """Return the resources of the node that containers can use, including those in use."""
        ...
