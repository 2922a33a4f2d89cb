"""Cgroups of pods by QoS class, node allocatable, and the cgroups of the agent and the system.

With the driver ``cgroupfs`` the agent creates the cgroups; with ``systemd`` they are slices of systemd. Without
``cgroupsPerQOS`` the runtime decides where pods run.
spec: config.cgroupsPerQOS, config.cgroupDriver, config.cgroupRoot, config.cpuCFSQuota, config.cpuCFSQuotaPeriod
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from nodeagent import hookimpl
from nodeagent.base.release import MEMORY_RESERVATION_CONFIGURABLE, SWAP_REVISED
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.cgroups import CgroupManager
from nodeagent.contracts.context import AgentContext, ConfigContext, ObjectsContext
from nodeagent.contracts.reservations import without_reserved
from nodeagent.errors import ConfigError, NodeAgentError, Problem
from nodeagent.model.resources import MEMORY
from nodeagent_plugins.cgroups.cgroupfs_driver import CgroupDriver, CgroupfsDriver
from nodeagent_plugins.cgroups.enforcement import Enforcement
from nodeagent_plugins.cgroups.files import CgroupFiles
from nodeagent_plugins.cgroups.hierarchy import Hierarchy, find_hierarchy
from nodeagent_plugins.cgroups.machine import Machine, read_machine
from nodeagent_plugins.cgroups.manager import NoopCgroupManager, QosCgroupManager, QosCgroupReconciler
from nodeagent_plugins.cgroups.names import POD_ROOT, CgroupName, Driver, parse_name, parse_slice
from nodeagent_plugins.cgroups.resources import MemoryReservation, Policy, Swap
from nodeagent_plugins.cgroups.system_cgroups import SystemCgroups
from nodeagent_plugins.cgroups.systemd_bus import SystemdBus
from nodeagent_plugins.cgroups.systemd_driver import SystemdDriver
from nodeagent_plugins.cgroups.version import LOSING_SUPPORT, LOSING_SUPPORT_VERSION, check_cgroup_version

_log = logging.getLogger(__name__)

_MOUNTINFO = Path("/proc/self/mountinfo")
_QUERY_RETRIES, _QUERY_RETRY_SECONDS = 2, 2.0
_SYSTEMD = Path("/run/systemd/system")
"""Exists if systemd is PID 1."""


@hookimpl
def nodeagent_provide_cgroups(context: ObjectsContext) -> CgroupManager | None:
    config, gates = context.config, context.gates
    hierarchy, machine = find_hierarchy(_MOUNTINFO.read_text()), read_machine()
    policy = _policy(context, machine, hierarchy)
    driver = Driver(config.cgroup_driver)
    root = _root(context, driver)
    query_driver = _query_driver(context) if gates.enabled("NodeAgentCgroupDriverFromCRI") else None
    check_cgroup_version(context, unified=hierarchy is None or hierarchy.unified)
    if not config.cgroups_per_qos:
        return NoopCgroupManager(policy, driver, root, query_driver)
    files = CgroupFiles(_needed(hierarchy, "cgroupsPerQOS", True), str(context.root_dir))
    percent = config.qos_reserved.get(MEMORY) if gates.enabled("QOSReserved") else None
    memory_qos = policy.unified and policy.memory_factor is not None
    return QosCgroupManager(
        policy,
        driver,
        root,
        lambda chosen: _drive(chosen, files, context),
        Enforcement(context, machine, (*root, POD_ROOT), memory_qos=memory_qos),
        context.pods.active,
        query_driver=query_driver,
        memory_percent=int(percent.removesuffix("%")) if percent else None,
        now=context.clock.now,
    )


@hookimpl
def nodeagent_provide_background_loops(context: AgentContext) -> Sequence[BackgroundLoop]:
    config, settings = context.config, context.settings
    loops: list[BackgroundLoop] = []
    if isinstance(context.cgroups, QosCgroupManager):
        loops.append(QosCgroupReconciler(context.cgroups, context.clock.sleep))
    named = {
        "nodeagentCgroups": config.nodeagent_cgroups,
        "systemCgroups": config.system_cgroups,
        "--runtime-cgroups": settings.runtime_cgroups,
    }
    used = next(((field, path) for field, path in named.items() if path), None)
    if used is not None:
        hierarchy = _needed(find_hierarchy(_MOUNTINFO.read_text()), *used)
        files = CgroupFiles(hierarchy, str(context.root_dir))
        agent, system, runtime = map(parse_name, named.values())
        loops.append(SystemCgroups(files, context.clock.sleep, agent=agent, system=system, runtime=runtime))
    return loops


def _root(context: ConfigContext, driver: Driver) -> CgroupName:
    path = context.config.cgroup_root
    return parse_slice(path) if driver is Driver.SYSTEMD else parse_name(path)


def _policy(context: ConfigContext, machine: Machine, hierarchy: Hierarchy | None) -> Policy:
    config, gates = context.config, context.gates
    swap = _swap(context)
    return Policy(
        quota=config.cpu_cfs_quota,
        period_us=config.cpu_cfs_quota_period.nanoseconds // 1000,
        memory_capacity_bytes=machine.memory,
        swap_capacity_bytes=machine.swap,
        page_sizes=tuple(machine.hugepages),
        pids_limit=config.pod_pids_limit,
        unified=hierarchy is not None and hierarchy.unified,
        swap=swap if hierarchy is not None and hierarchy.limits_swap() else None,
        swap_with_limit=context.release.release >= SWAP_REVISED,
        memory_factor=config.memory_throttling_factor if gates.enabled("MemoryQoS") else None,
        memory_reservation=_reservation(context),
        pods_memory_bytes=without_reserved(machine.capacity, config)[MEMORY].value(),
        single_process_oom_kill=bool(config.single_process_oom_kill),
    )


def _reservation(context: ConfigContext) -> MemoryReservation:
    """Return the protection of requested memory; before release 1.36 it does not depend on the configuration."""
    chosen = MemoryReservation(context.config.memory_reservation_policy)
    earlier = chosen is MemoryReservation.NONE and context.release.release < MEMORY_RESERVATION_CONFIGURABLE
    return MemoryReservation.MIN if earlier else chosen


def _swap(context: ConfigContext) -> Swap:
    """Return the swap behavior; the default depends on the release."""
    default = "LimitedSwap" if context.release.release < SWAP_REVISED else "NoSwap"
    behavior = context.config.memory_swap.swap_behavior or default
    return Swap.NONE if behavior == "NoSwap" or not context.gates.enabled("NodeSwap") else Swap(behavior)


def _query_driver(context: ObjectsContext) -> Callable[[], Awaitable[str]]:
    """Return a query for the cgroup driver of the runtime, with retries."""

    async def query() -> str:
        for _ in range(_QUERY_RETRIES):
            try:
                return await query_once()
            except NodeAgentError as error:
                _log.warning("Failed to query cgroup driver of runtime", extra={"err": str(error)})
                await context.clock.sleep(_QUERY_RETRY_SECONDS)
        return await query_once()

    async def query_once() -> str:
        reported = await context.runtime.cgroup_driver()
        if not reported:
            LOSING_SUPPORT.set(1, LOSING_SUPPORT_VERSION)
        return reported

    return query


def _needed(hierarchy: Hierarchy | None, field: str, value: object) -> Hierarchy:
    """Return *hierarchy*.

    :raises ConfigError: it is missing, and *field* requires it.
    """
    if hierarchy is None:
        rule = "requires a mounted cgroup file system; or set cgroupsPerQOS to false, enforceNodeAllocatable to []"
        raise ConfigError([Problem("configuration", field, value, rule)])
    return hierarchy


def _drive(driver: Driver, files: CgroupFiles, context: ConfigContext) -> CgroupDriver:
    """Return the driver of the cgroups.

    :raises ConfigError: the driver is systemd, but systemd is not running.
    """
    if driver is Driver.CGROUPFS:
        return CgroupfsDriver(files)
    if not _SYSTEMD.is_dir():
        rule = "requires a host with systemd; otherwise set cgroupfs, also in the runtime"
        raise ConfigError([Problem("configuration", "cgroupDriver", "systemd", rule)])
    bus = SystemdBus()
    context.cleanup.push_async_callback(bus.close)
    return SystemdDriver(files, bus)
