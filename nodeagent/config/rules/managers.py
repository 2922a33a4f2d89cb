"""Rules of the CPU, memory and topology managers and of reserved resources."""

from __future__ import annotations

import re

from nodeagent.base.cpu_list import parse_cpu_list
from nodeagent.base.quantity import Quantity
from nodeagent.config.codec import child
from nodeagent.config.rules.check import Check
from nodeagent.config.rules.manager_options import check_cpu_options, check_topology_options

_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pid")
_COMPRESSIBLE = "-compressible"
_RESERVED = ("system-reserved", "platform-reserved")
_ENFORCEMENTS = ("none", "pods", *_RESERVED, *(f"{entry}{_COMPRESSIBLE}" for entry in _RESERVED))
_PERCENT = re.compile(r"\d{1,3}%", re.ASCII)


def check_managers(check: Check) -> None:
    """Check the fields of the managers and the reservations."""
    _check_cpu(check)
    _check_topology(check)
    _check_reserved(check)
    _check_memory(check)
    for resource, share in check.config.qos_reserved.items():
        path = child("qosReserved", resource)
        if resource != "memory":
            check.report(path, share, "only memory can be reserved")
        elif not _PERCENT.fullmatch(share) or int(share[:-1]) > 100:
            check.report(path, share, "must be a percentage from 0% to 100%")
    if check.config.qos_reserved:
        check.needs_gate("qosReserved", "QOSReserved")


def _check_cpu(check: Check) -> None:
    config = check.config
    check.one_of("cpuManagerPolicy", ("none", "static"), fold=True)
    check.positive("cpuManagerReconcilePeriod")
    options = config.cpu_manager_policy_options
    if not options:
        return
    check.needs_gate("cpuManagerPolicyOptions", "CPUManagerPolicyOptions")
    if config.cpu_manager_policy.lower() == "none":
        check.fail("cpuManagerPolicyOptions", "cannot be set with cpuManagerPolicy none")
    check_cpu_options(check)


def _check_topology(check: Check) -> None:
    config = check.config
    check.one_of("topologyManagerPolicy", ("none", "best-effort", "restricted", "single-numa-node"))
    check.one_of("topologyManagerScope", ("container", "pod"))
    if config.topology_manager_policy != "none":
        check.needs_gate("topologyManagerPolicy", "TopologyManager")
    options = config.topology_manager_policy_options
    if options:
        path = "topologyManagerPolicyOptions"
        if check.needs_gate(path, "TopologyManager"):
            check.needs_gate(path, "TopologyManagerPolicyOptions")
        check_topology_options(check)


def _check_reserved(check: Check) -> None:
    config = check.config
    for field, reserved in (
        ("systemReserved", config.system_reserved),
        ("platformReserved", config.platform_reserved),
    ):
        for resource, text in reserved.items():
            path = child(field, resource)
            if resource not in _RESOURCES:
                check.report(path, text, f"cannot be reserved; supported: {', '.join(_RESOURCES)}")
                continue
            try:
                if Quantity.parse(text) < Quantity():
                    check.report(path, text, "must not be negative")
            except ValueError as error:
                check.report(path, text, str(error))
    if config.reserved_system_cpus:
        try:
            parse_cpu_list(config.reserved_system_cpus)
        except ValueError as error:
            check.fail("reservedSystemCPUs", str(error))
        if config.system_reserved_cgroup or config.platform_reserved_cgroup:
            check.fail("reservedSystemCPUs", "cannot be combined with systemReservedCgroup or platformReservedCgroup")
    _check_enforcement(check)


def _check_enforcement(check: Check) -> None:
    config = check.config
    entries = config.enforce_node_allocatable
    if entries and not config.cgroups_per_qos:
        check.fail("enforceNodeAllocatable", "must be [] without cgroupsPerQOS")
    for index, entry in enumerate(entries):
        path = f"enforceNodeAllocatable[{index}]"
        if entry not in _ENFORCEMENTS:
            check.report(path, entry, f"must be one of {', '.join(_ENFORCEMENTS)}")
        elif entry == "none" and len(entries) > 1:
            check.report(path, entry, "must be the only entry")
        elif entry in entries[:index]:
            check.warnings.append(f"{path}: {entry} is already an entry, which releases since 1.36 reject")
        elif entry.removesuffix(_COMPRESSIBLE) in entries[:index] or f"{entry}{_COMPRESSIBLE}" in entries[:index]:
            check.report(path, entry, "cannot be combined with the entry with or without -compressible")
        elif entry.startswith("system-reserved") and not config.system_reserved_cgroup:
            check.report(path, entry, "needs systemReservedCgroup")
        elif entry.startswith("platform-reserved") and not config.platform_reserved_cgroup:
            check.report(path, entry, "needs platformReservedCgroup")


def _check_memory(check: Check) -> None:
    config = check.config
    check.one_of("memoryManagerPolicy", ("none", "static"), fold=True)
    static = config.memory_manager_policy.lower() == "static"
    if static:
        check.needs_gate("memoryManagerPolicy", "MemoryManager")
    seen: set[tuple[int, str]] = set()
    total = Quantity()
    for index, reservation in enumerate(config.reserved_memory):
        path = f"reservedMemory[{index}]"
        if reservation.numa_node < 0:
            check.report(f"{path}.numaNode", reservation.numa_node, "must not be negative")
        if not reservation.limits:
            check.report(f"{path}.limits", None, "must have at least one entry")
        for kind, amount in reservation.limits.items():
            here = child(f"{path}.limits", kind)
            if kind != "memory" and not kind.startswith("hugepages-"):
                check.report(here, str(amount), "must be memory or hugepages-<size>")
            if amount <= Quantity():
                check.report(here, str(amount), "must be greater than 0")
            if (reservation.numa_node, kind) in seen:
                check.report(here, str(amount), f"is reserved twice on NUMA node {reservation.numa_node}")
            seen.add((reservation.numa_node, kind))
            if kind == "memory":
                total += amount
    if static:
        _check_sum(check, total)


def _check_sum(check: Check, total: Quantity) -> None:
    """Check that the total equals the memory reserved on the node; a percentage of the capacity is checked at start."""
    config = check.config
    eviction = config.eviction_hard.get("memory.available", "0")
    try:
        expected = sum(
            map(Quantity.parse, (config.platform_reserved.get("memory", "0"), eviction)),
            Quantity.parse(config.system_reserved.get("memory", "0")),
        )
    except ValueError:
        return  # A percentage, or invalid and already reported.
    if total != expected:
        check.report(
            "reservedMemory",
            str(total),
            f"must add up to memory in systemReserved, platformReserved and evictionHard: {expected}",
        )
