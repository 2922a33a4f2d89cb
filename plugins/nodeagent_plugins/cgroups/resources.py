"""Limits of containers and pods. No I/O."""

from __future__ import annotations

from enum import StrEnum

from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import Struct
from nodeagent.contracts.cgroups import PodLimit
from nodeagent.contracts.runtime import LinuxResources
from nodeagent.model.pod import Container, Pod
from nodeagent.model.qos import QosClass, is_critical, oom_score_adj, qos_class
from nodeagent.model.resources import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    Amounts,
    container_limits,
    container_requests,
    effective_limits,
    limited_everywhere,
    pod_limits,
    pod_requests,
)
from nodeagent_plugins.cgroups.formulas import (
    DEFAULT_PERIOD_US,
    MIN_SHARES,
    cfs_quota,
    cpu_shares,
    memory_high,
    swap_share,
)
from nodeagent_plugins.cgroups.limits import UNLIMITED, CgroupLimits

_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))
_ZERO = Quantity()


class Swap(StrEnum):
    """Swap behavior of containers; all values except the first are those of the configuration."""

    NONE = ""
    LIMITED = "LimitedSwap"
    UNLIMITED = "UnlimitedSwap"


class MemoryReservation(StrEnum):
    """Protection of the requested memory of pods from reclaim, with MemoryQoS."""

    MIN = "memory.min"
    """The kernel reclaims no requested memory; the behavior before release 1.36."""
    NONE = "None"
    TIERED = "TieredReservation"
    """As ``MIN`` for guaranteed pods; for burstable pods only if there is no other memory to reclaim."""


class Policy(Struct, frozen=True):
    """Settings of the configuration and the host that limits depend on.

    spec: config.cpuCFSQuota, config.cpuCFSQuotaPeriod, config.podPidsLimit, config.memorySwap,
    config.memoryThrottlingFactor

    :ivar page_sizes: sizes of huge pages in bytes; a size that is not requested is limited to 0.
    :ivar unified: whether the host uses cgroup v2.
    :ivar swap: ``None`` if the kernel does not account swap per cgroup.
    :ivar swap_with_limit: whether limited swap is in addition to the memory limit (cgroup v2 only).
    :ivar memory_factor: throttling point between request and limit; ``None`` disables MemoryQoS.
    :ivar memory_reservation: protection of requested memory with MemoryQoS.
    :ivar pods_memory_bytes: memory available to all pods; replaces an unset memory limit.
    :ivar single_process_oom_kill: whether the OOM killer kills one process instead of the container.
    """

    quota: bool = True
    period_us: int = DEFAULT_PERIOD_US
    memory_capacity_bytes: int = 0
    swap_capacity_bytes: int = 0
    page_sizes: tuple[int, ...] = ()
    pids_limit: int = 0
    unified: bool = False
    swap: Swap | None = None
    swap_with_limit: bool = False
    memory_factor: float | None = None
    memory_reservation: MemoryReservation = MemoryReservation.MIN
    pods_memory_bytes: int = 0
    single_process_oom_kill: bool = False


def container_resources(pod: Pod, container: Container, policy: Policy) -> LinuxResources:
    """Return the limits of one container; without a CPU request the CPU limit is used as the request."""
    requests, limits = container_requests(container), effective_limits(pod, container)
    quota = cfs_quota(_milli(limits), policy.period_us) if policy.quota else 0
    memory_limit = limits.get(MEMORY, _ZERO).value()
    own_memory_limit = container_limits(container).get(MEMORY, _ZERO).value()
    unified = {}
    if policy.unified:
        if not policy.single_process_oom_kill:
            unified["memory.oom.group"] = "1"  # The OOM killer kills all processes of the container.
        unified |= _swap_files(pod, requests, own_memory_limit, policy)
        unified |= _memory_files(qos_class(pod), requests, own_memory_limit, policy)
    return LinuxResources(
        cpu_shares=cpu_shares(_milli(requests if CPU in requests else limits)),
        cpu_period=policy.period_us if quota else 0,
        cpu_quota=quota,
        memory_limit_bytes=memory_limit,
        oom_score_adj=oom_score_adj(pod, container, policy.memory_capacity_bytes),
        hugepage_limits=_hugepages(limits, policy),
        unified=unified,
        memory_swap_limit_bytes=_swap_limit(memory_limit, policy),
    )


def pod_resources(pod: Pod, policy: Policy) -> LinuxResources:
    """Return the limits of the pod as defined by its QoS class; 0 is unlimited."""
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


def pod_cgroup_limits(pod: Pod, policy: Policy) -> CgroupLimits:
    """Return the limits of the pod's cgroup; unset limits are removed."""
    resources = pod_resources(pod, policy)
    unified = {}
    if policy.unified and policy.memory_factor is not None:
        requested = pod_requests(pod).get(MEMORY, _ZERO).value()
        unified = reserved_memory(policy.memory_reservation, requested, soft=qos_class(pod) is not QosClass.GUARANTEED)
    return CgroupLimits(
        cpu_shares=resources.cpu_shares,
        cpu_quota=resources.cpu_quota or UNLIMITED,
        cpu_period=resources.cpu_period or DEFAULT_PERIOD_US,
        memory_bytes=resources.memory_limit_bytes or UNLIMITED,
        pids=policy.pids_limit if policy.pids_limit > 0 else UNLIMITED,
        hugepages=resources.hugepage_limits,
        unified=unified,
    )


def only(limits: CgroupLimits, kind: PodLimit) -> CgroupLimits:
    """Return one of *limits*; the others are left unchanged."""
    match kind:
        case PodLimit.MEMORY:
            return CgroupLimits(memory_bytes=limits.memory_bytes)
        case PodLimit.CPU:
            return CgroupLimits(cpu_quota=limits.cpu_quota, cpu_period=limits.cpu_period)
        case PodLimit.CPU_SHARES:
            return CgroupLimits(cpu_shares=limits.cpu_shares)


def page_size_name(size_bytes: int) -> str:
    """Return a page size in the notation of the kernel's file names, such as ``2MB``."""
    unit, name = next((unit, name) for unit, name in _UNITS if size_bytes >= unit)
    return f"{size_bytes // unit}{name}"


def _swap_limit(memory_limit: int, policy: Policy) -> int:
    """Return the combined limit of memory and swap, as cgroup v1 defines it.

    Without a memory limit there is no combined limit.
    """
    if policy.swap is None or policy.unified:
        return 0
    return UNLIMITED if policy.swap is Swap.UNLIMITED else memory_limit


def _swap_files(pod: Pod, requests: Amounts, memory_limit: int, policy: Policy) -> dict[str, str]:
    """Return the swap limit (cgroup v2).

    With limited swap, a container of a Burstable pod has a share of the swap in proportion to its memory request. If
    the memory limit includes swap, a container with a limit has none. Otherwise containers of critical pods, and those
    with equal request and limit, have none.
    """
    if policy.swap is None:
        return {}
    if policy.swap is Swap.UNLIMITED:
        return {"memory.swap.max": "max"}
    share, request = 0, requests.get(MEMORY, _ZERO).value()
    if policy.swap_with_limit:
        excluded = is_critical(pod) or request == memory_limit or request > policy.memory_capacity_bytes
    else:
        excluded = memory_limit > 0
    if policy.swap is Swap.LIMITED and not excluded and qos_class(pod) is QosClass.BURSTABLE:
        share = swap_share(request, policy.memory_capacity_bytes, policy.swap_capacity_bytes)
    return {"memory.swap.max": str(share)}


def reserved_memory(reservation: MemoryReservation, size_bytes: int, *, soft: bool) -> dict[str, str]:
    """Return the files that protect *size_bytes* of memory from reclaim.

    :param soft: protect memory of burstable pods.
    """
    if reservation is MemoryReservation.MIN:
        return {"memory.min": str(size_bytes)}
    reserved = size_bytes if reservation is MemoryReservation.TIERED else 0
    return {"memory.min": str(0 if soft else reserved), "memory.low": str(reserved if soft else 0)}


def _memory_files(qos: QosClass, requests: Amounts, memory_limit: int, policy: Policy) -> dict[str, str]:
    """Return the memory protection and throttling limits (cgroup v2 with MemoryQoS)."""
    if policy.memory_factor is None:
        return {}
    request = requests.get(MEMORY, _ZERO).value()
    files = {}
    if request or policy.memory_reservation is not MemoryReservation.MIN:
        files = reserved_memory(policy.memory_reservation, request, soft=qos is not QosClass.GUARANTEED)
    if request != memory_limit:
        high = memory_high(request, memory_limit or policy.pods_memory_bytes, policy.memory_factor)
        if high > request:
            files["memory.high"] = str(high)
    return files


def _milli(amounts: Amounts) -> int:
    return amounts.get(CPU, _ZERO).milli_value()


def _hugepages(amounts: Amounts, policy: Policy) -> dict[str, int]:
    limits = {page_size_name(size): 0 for size in policy.page_sizes}
    for name, amount in amounts.items():
        if name.startswith(HUGEPAGES_PREFIX):
            size = Quantity.parse(name.removeprefix(HUGEPAGES_PREFIX)).value()
            limits[page_size_name(size)] = amount.value()
    return limits
