"""Limits of the QoS class cgroups. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import Struct
from nodeagent.model.pod import Pod
from nodeagent.model.pod_values import PodValues
from nodeagent.model.qos import QosClass, qos_class
from nodeagent.model.resources import CPU, MEMORY, pod_requests
from nodeagent_plugins.cgroups.formulas import MIN_SHARES, cpu_shares
from nodeagent_plugins.cgroups.limits import HUGEPAGES_UNLIMITED, UNLIMITED, CgroupLimits
from nodeagent_plugins.cgroups.resources import Policy, page_size_name, reserved_memory

_ZERO = Quantity()


class ResourceRequests(Struct, frozen=True):
    """CPU and memory requests of one pod, or of all pods of a class."""

    milli_cpu: int = 0
    memory_bytes: int = 0


class ClassSums:
    """Sums the requests of pods by class; only pods that changed since the last call are evaluated."""

    def __init__(self) -> None:
        self._requests = PodValues(lambda pod: (qos_class(pod), _requested(pod)))
        self._sums = dict.fromkeys(QosClass, ResourceRequests())

    def of(self, pods: Iterable[Pod]) -> Mapping[QosClass, ResourceRequests]:
        """Return the total of each class."""
        added, removed = self._requests.update(pods)
        for sign, changed in ((1, added), (-1, removed)):
            for qos, requested in changed:
                total = self._sums[qos]
                cpu = total.milli_cpu + sign * requested.milli_cpu
                memory = total.memory_bytes + sign * requested.memory_bytes
                self._sums[qos] = ResourceRequests(cpu, memory)
        return self._sums


def class_limits(
    sums: Mapping[QosClass, ResourceRequests], policy: Policy, memory_percent: int | None = None
) -> dict[QosClass, CgroupLimits]:
    """Return the limits of each class's cgroup; that of Guaranteed contains the others.

    BestEffort has the minimum weight, Burstable that of the total CPU requests. Huge pages are limited only per pod.

    :param memory_percent: percentage of the memory requested by a class that lower classes cannot use (spec:
         config.qosReserved); ``None`` disables the reservation.
    """
    guaranteed, burstable = sums[QosClass.GUARANTEED], sums[QosClass.BURSTABLE]
    pages = {page_size_name(size): HUGEPAGES_UNLIMITED for size in policy.page_sizes}
    burstable_memory = best_effort_memory = UNLIMITED
    if memory_percent is not None:
        burstable_memory = max(policy.pods_memory_bytes - guaranteed.memory_bytes * memory_percent // 100, 0)
        best_effort_memory = max(burstable_memory - burstable.memory_bytes * memory_percent // 100, 0)
    keeps: dict[QosClass, dict[str, str]] = {QosClass.GUARANTEED: {}, QosClass.BURSTABLE: {}}
    if policy.unified and policy.memory_factor is not None:
        # The protection of a cgroup is limited by that of the cgroups above it.
        total = guaranteed.memory_bytes + burstable.memory_bytes
        keeps[QosClass.GUARANTEED] = reserved_memory(policy.memory_reservation, total, soft=False)
        keeps[QosClass.BURSTABLE] = reserved_memory(policy.memory_reservation, burstable.memory_bytes, soft=True)
    return {
        QosClass.GUARANTEED: CgroupLimits(unified=keeps[QosClass.GUARANTEED]),
        QosClass.BURSTABLE: CgroupLimits(
            cpu_shares=cpu_shares(burstable.milli_cpu),
            memory_bytes=burstable_memory,
            hugepages=pages,
            unified=keeps[QosClass.BURSTABLE],
        ),
        QosClass.BEST_EFFORT: CgroupLimits(cpu_shares=MIN_SHARES, memory_bytes=best_effort_memory, hugepages=pages),
    }


def _requested(pod: Pod) -> ResourceRequests:
    try:
        requests = pod_requests(pod)
    except ValueError:  # An invalid pod must not block the others.
        return ResourceRequests()
    return ResourceRequests(requests.get(CPU, _ZERO).milli_value(), requests.get(MEMORY, _ZERO).value())
