"""The limits of containers and pods. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from nodeagent_plugins.cgroups.formulas import DEFAULT_PERIOD_US, MIN_SHARES, cfs_quota, cpu_shares

from nodeagent.base.quantity import Quantity
from nodeagent.contracts.runtime import LinuxResources
from nodeagent.model.pod import Container, Pod
from nodeagent.model.qos import QosClass, oom_score_adj, qos_class
from nodeagent.model.resources import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    Amounts,
    container_limits,
    container_requests,
    limited_everywhere,
    pod_limits,
    pod_requests,
)

_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))
_ZERO = Quantity()


@dataclass(frozen=True, slots=True)
class Policy:
    """What of the configuration and the machine the limits depend on.

    spec: config.cpuCFSQuota, config.cpuCFSQuotaPeriod, config.podPidsLimit
    """

    quota: bool = True
    period_us: int = DEFAULT_PERIOD_US
    memory_capacity_bytes: int = 0
    page_sizes: tuple[int, ...] = ()
    """Sizes of huge pages in bytes; a size that nobody asked for is limited to nothing."""


def container_resources(pod: Pod, container: Container, policy: Policy) -> LinuxResources:
    """Return the limits of one container; without a cpu request its limit counts as the request."""
    requests, limits = container_requests(container), container_limits(container)
    quota = cfs_quota(_milli(limits), policy.period_us) if policy.quota else 0
    return LinuxResources(
        cpu_shares=cpu_shares(_milli(requests if CPU in requests else limits)),
        cpu_period=policy.period_us if quota else 0,
        cpu_quota=quota,
        memory_limit_bytes=limits.get(MEMORY, _ZERO).value(),
        oom_score_adj=oom_score_adj(pod, container, policy.memory_capacity_bytes),
        hugepage_limits=_hugepages(limits, policy),
    )


def pod_resources(pod: Pod, policy: Policy) -> LinuxResources:
    """Return the limits of the pod as a whole, by its QoS class; what it is not limited in stays 0."""
    qos = qos_class(pod)
    requests, limits = pod_requests(pod), pod_limits(pod)
    hugepages = _hugepages(requests, policy)
    if qos is QosClass.BEST_EFFORT:
        return LinuxResources(cpu_shares=MIN_SHARES, hugepage_limits=hugepages)
    guaranteed = qos is QosClass.GUARANTEED
    by_cpu = guaranteed or limited_everywhere(pod, CPU)
    by_memory = guaranteed or limited_everywhere(pod, MEMORY)
    quota = cfs_quota(_milli(limits), policy.period_us) if policy.quota and by_cpu else 0
    return LinuxResources(
        cpu_shares=cpu_shares(_milli(requests)),
        cpu_period=policy.period_us if quota else 0,
        cpu_quota=quota,
        memory_limit_bytes=limits.get(MEMORY, _ZERO).value() if by_memory else 0,
        hugepage_limits=hugepages,
    )


def page_size_name(size_bytes: int) -> str:
    """Return a page size as the kernel's file names have it: ``2MB``."""
    unit, name = next((unit, name) for unit, name in _UNITS if size_bytes >= unit)
    return f"{size_bytes // unit}{name}"


def _milli(amounts: Amounts) -> int:
    return amounts.get(CPU, _ZERO).milli_value()


def _hugepages(amounts: Amounts, policy: Policy) -> dict[str, int]:
    limits = {page_size_name(size): 0 for size in policy.page_sizes}
    for name, amount in amounts.items():
        if name.startswith(HUGEPAGES_PREFIX):
            size = Quantity.parse(name.removeprefix(HUGEPAGES_PREFIX)).value()
            limits[page_size_name(size)] = amount.value()
    return limits
