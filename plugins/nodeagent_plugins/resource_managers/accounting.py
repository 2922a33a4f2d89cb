"""Allocations of the CPU and memory managers, counted in their metrics."""

from __future__ import annotations

from nodeagent.contracts.topology import Hint
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.resource_managers import metrics
from nodeagent_plugins.resource_managers.cpu import CpuAssignments, exclusive_cpus
from nodeagent_plugins.resource_managers.memory import MemoryAssignments, is_pinned
from nodeagent_plugins.resource_managers.metrics import ALIGNED, CONTAINER_SCOPE, NOT_ALIGNED, PHYSICAL_CPU


def expose_cpus(cpus: CpuAssignments) -> None:
    """Expose the sizes of the shared pool and of the exclusive assignments as metrics."""
    metrics.SHARED_POOL_MILLICORES.sample = lambda: {(): len(cpus.free) * 1000}
    metrics.EXCLUSIVE_CPUS.sample = lambda: {(): len(cpus.exclusive())}
    metrics.CPUS_PER_NODE.sample = lambda: {(str(node),): count for node, count in cpus.per_node().items()}


def allocate_cpus(cpus: CpuAssignments, pod: Pod, container: Container, hint: Hint) -> bool:
    """Assign exclusive CPUs to the container if it needs any; return whether anything changed.

    :raises AdmissionRejected: see :meth:`CpuAssignments.allocate`.
    :raises AllocationFailed: not enough CPUs are available.
    """
    if not exclusive_cpus(pod, container):
        return False
    metrics.PINNING_REQUESTS.inc()
    try:
        changed = cpus.allocate(pod, container, hint)
    except NodeAgentError:
        metrics.PINNING_ERRORS.inc()
        NOT_ALIGNED.inc(CONTAINER_SCOPE, PHYSICAL_CPU, by=cpus.full_cores)
        raise
    ALIGNED.inc(CONTAINER_SCOPE, PHYSICAL_CPU, by=cpus.full_cores)
    if changed:
        held = cpus.of(pod.uid, container.name) or frozenset()
        ALIGNED.inc(CONTAINER_SCOPE, metrics.UNCORE_CACHE, by=cpus.within_cache(held))
    return changed


def allocate_memory(memory: MemoryAssignments, pod: Pod, container: Container, hint: Hint) -> bool:
    """Pin the container's memory if its pod is guaranteed; return whether anything changed.

    :raises AllocationFailed: no set of nodes has enough memory.
    """
    if not is_pinned(pod):
        return False
    metrics.MEMORY_REQUESTS.inc()
    try:
        return memory.allocate(pod, container, hint)
    except NodeAgentError:
        metrics.MEMORY_ERRORS.inc()
        raise
