"""Node allocatable enforcement: limits of all pods together and of reserved cgroups."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from nodeagent.base.structs import Struct
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import ObjectsContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.reservations import platform_reserved, system_reserved, without_reserved
from nodeagent.errors import ConfigError, Problem
from nodeagent.model.resources import CPU, MEMORY, Amounts
from nodeagent_plugins.cgroups.cgroupfs_driver import CgroupDriver
from nodeagent_plugins.cgroups.files import CgroupError
from nodeagent_plugins.cgroups.formulas import cpu_shares
from nodeagent_plugins.cgroups.limits import HUGEPAGES_UNLIMITED, UNLIMITED, CgroupLimits
from nodeagent_plugins.cgroups.machine import PIDS, Machine
from nodeagent_plugins.cgroups.names import CgroupName, cgroupfs_path
from nodeagent_plugins.cgroups.resources import page_size_name

_log = logging.getLogger(__name__)
_LIMITING = ("cpu", "memory")
_DONE = "NodeAllocatableEnforced"
_FAILED = "FailedNodeAllocatableEnforcement"


class Reservation(Struct, frozen=True):
    """An existing cgroup that is limited to its reservation."""

    field: str
    kind: str
    path: str
    limits: CgroupLimits


class Enforcement:
    """Enforces the limits in ``enforceNodeAllocatable`` and records events.

    spec: config.enforceNodeAllocatable, config.systemReservedCgroup, config.platformReservedCgroup

    :param root: the cgroup of all pods.
    """

    def __init__(
        self, context: ObjectsContext, machine: Machine, root: CgroupName, *, memory_qos: bool = False
    ) -> None:
        self._context, self._root = context, root
        self._limits = pods_limits(context.config, machine)
        self._announced = "pods" in context.config.enforce_node_allocatable
        self._reservations = reservations(context.config, memory_qos=memory_qos)
        self._enforced = False

    async def enforce_reserved_limits(self, driver: CgroupDriver) -> None:
        """Limit the reserved cgroups to their reservations.

        :raises ConfigError: a reserved cgroup does not exist.
        :raises CgroupError: the kernel rejects a limit.
        """
        for each in self._reservations:
            name = driver.find(each.path)
            missing = await driver.lacks(name, _LIMITING)
            if missing:
                rule = f"must exist before the agent starts; it is missing for {', '.join(missing)}"
                problem = Problem("configuration", each.field, each.path, rule)
                self._failed(f"Failed to enforce limits on {each.kind} reserved cgroup {each.path}: {rule}")
                raise ConfigError([problem])
            try:
                await driver.limit(name, each.limits)
            except CgroupError as error:
                self._failed(f"Failed to enforce limits on {each.kind} reserved cgroup {each.path}: {error}")
                raise
            self._done(f"Updated limits on {each.kind} reserved cgroup {each.path}")

    async def enforce_pods_limit(self, driver: CgroupDriver) -> None:
        """Limit all pods together to the allocatable resources; does nothing once the limit is set.

        While pods use more than that, the kernel rejects the limit: eviction reduces the usage, and the caller retries.
        """
        if self._enforced:
            return
        try:
            await driver.limit(self._root, self._limits)
        except CgroupError as error:
            self._failed(f"Failed to update Node Allocatable Limits {cgroupfs_path(self._root)}: {error}")
            return
        self._enforced = True
        if self._announced:
            self._done("Updated Node Allocatable limit across pods")

    def _done(self, message: str) -> None:
        _log.info("Enforced node allocatable limits", extra={"event": message})
        self._context.recorder.record(self._context.node_reference(), EventType.NORMAL, _DONE, message)

    def _failed(self, message: str) -> None:
        _log.warning("Failed to enforce node allocatable limits", extra={"err": message})
        self._context.recorder.record(self._context.node_reference(), EventType.WARNING, _FAILED, message)


def pods_limits(config: NodeAgentConfiguration, machine: Machine) -> CgroupLimits:
    """Return the limits of all pods together: capacity minus reservations; eviction thresholds are not subtracted.

    Without enforcement, the CPU weight is that of the node, and limits from before a restart are removed.
    """
    if "pods" not in config.enforce_node_allocatable:
        return CgroupLimits(
            cpu_shares=cpu_shares(machine.cores * 1000),
            memory_bytes=UNLIMITED,
            pids=UNLIMITED,
            hugepages={page_size_name(size): HUGEPAGES_UNLIMITED for size in machine.hugepages},
        )
    limits = _limits(without_reserved(machine.capacity, config))
    return CgroupLimits(
        cpu_shares=limits.cpu_shares,
        memory_bytes=limits.memory_bytes,
        pids=limits.pids,
        hugepages={page_size_name(size): amount for size, amount in machine.hugepages.items()},
    )


def reservations(config: NodeAgentConfiguration, *, memory_qos: bool = False) -> Sequence[Reservation]:
    """Return the reserved cgroups to enforce.

    :param memory_qos: also protect the reserved memory from reclaim (cgroup v2).
    """
    found = []
    for entry, field, kind, path, amounts in (
        ("system-reserved", "systemReservedCgroup", "system", config.system_reserved_cgroup, system_reserved(config)),
        (
            "platform-reserved",
            "platformReservedCgroup",
            "platform",
            config.platform_reserved_cgroup,
            platform_reserved(config),
        ),
    ):
        if entry in config.enforce_node_allocatable:
            found.append(Reservation(field, kind, path, _limits(amounts, memory_qos=memory_qos)))
        elif f"{entry}-compressible" in config.enforce_node_allocatable:
            found.append(Reservation(field, kind, path, CgroupLimits(cpu_shares=_shares(amounts))))
    return found


def _limits(amounts: Amounts, *, memory_qos: bool = False) -> CgroupLimits:
    memory = amounts[MEMORY].value() if MEMORY in amounts else None
    return CgroupLimits(
        cpu_shares=_shares(amounts),
        memory_bytes=memory,
        pids=amounts[PIDS].value() if PIDS in amounts else None,
        unified={"memory.min": str(memory)} if memory_qos and memory is not None else {},
    )


def _shares(amounts: Amounts) -> int | None:
    return cpu_shares(amounts[CPU].milli_value()) if CPU in amounts else None
