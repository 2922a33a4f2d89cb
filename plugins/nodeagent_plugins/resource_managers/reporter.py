"""Reporter of exclusive CPUs and pinned memory."""

from __future__ import annotations

from collections.abc import Callable

from nodeagent.contracts.pod_resources import AssignedMemory, AssignedResources
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.resource_managers.cpu import CpuAssignments
from nodeagent_plugins.resource_managers.memory import MemoryAssignments


class AssignmentReporter:
    """:class:`~nodeagent.contracts.pod_resources.ResourceReporter` of the CPU and memory managers.

    :param cpus: returns the CPU assignments; ``None`` unless the policy is ``static``.
    :param memory: returns the memory assignments; ``None`` unless the policy is ``Static``.
    """

    name = "cpus and memory"

    def __init__(
        self, cpus: Callable[[], CpuAssignments | None], memory: Callable[[], MemoryAssignments | None]
    ) -> None:
        self._cpus, self._memory = cpus, memory

    def container_resources(self, pod: Pod, container: Container) -> AssignedResources:
        cpus, memory = self._cpus(), self._memory()
        exclusive = cpus.of(pod.uid, container.name) if cpus is not None else None
        blocks = memory.entries.get(pod.uid, {}).get(container.name, ()) if memory is not None else ()
        return AssignedResources(
            cpus=sorted(exclusive or ()),
            memory=[AssignedMemory(block.resource, block.size, tuple(block.nodes)) for block in blocks],
        )

    def allocatable_resources(self) -> AssignedResources:
        cpus, memory = self._cpus(), self._memory()
        nodes = memory.nodes if memory is not None else {}
        return AssignedResources(
            cpus=sorted(cpus.assignable) if cpus is not None else (),
            memory=[
                AssignedMemory(resource, table.allocatable, (number,))
                for number, node in sorted(nodes.items())
                for resource, table in node.tables.items()
                if table.allocatable
            ],
        )
