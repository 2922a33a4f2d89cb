"""Validation of the configuration against the CPUs and memory of the host."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.base.boolean import parse_bool
from nodeagent.base.cpu_list import parse_cpu_list
from nodeagent.base.quantity import Quantity
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.reservations import all_reserved
from nodeagent.errors import ConfigError, Problem
from nodeagent.model.eviction_thresholds import reserved_for_eviction
from nodeagent.model.resources import CPU, MEMORY, add
from nodeagent_plugins.resource_managers.alignment import NONE, Alignment
from nodeagent_plugins.resource_managers.cpu import CpuAssignments, CpuOptions
from nodeagent_plugins.resource_managers.cpu_assignment import take_packed
from nodeagent_plugins.resource_managers.memory import MemoryAssignments
from nodeagent_plugins.resource_managers.topology import Topology, format_cpu_list

MAX_NUMA_NODES = 8
"""Default of ``max-allowable-numa-nodes``; limits the number of combinations per admission."""

_SOURCE = "resource managers"


def make_alignment(config: NodeAgentConfiguration, topology: Topology) -> Alignment:
    """Return the policy of ``topologyManagerPolicy``.

    :raises ConfigError: the host has too many NUMA nodes.
    """
    policy, nodes = config.topology_manager_policy, len(topology.nodes)
    options = config.topology_manager_policy_options
    limit = int(options.get("max-allowable-numa-nodes", MAX_NUMA_NODES))
    if policy != NONE and nodes > limit:
        rule = f"is not supported on hosts with more than {limit} NUMA nodes; this host has {nodes}"
        raise _wrong("topologyManagerPolicy", policy, rule)
    closest = bool(parse_bool(options.get("prefer-closest-numa-nodes", "")))
    if policy != NONE and closest and not all(node.distances for node in topology.nodes.values()):
        field = "topologyManagerPolicyOptions.prefer-closest-numa-nodes"
        raise _wrong(field, "true", "requires NUMA distances, which the kernel does not report")
    return Alignment(policy, topology, closest=closest)


def make_cpus(config: NodeAgentConfiguration, topology: Topology) -> CpuAssignments:
    """Return the assignments of policy ``static`` with all CPUs shared.

    :raises ConfigError: no CPU is reserved, a reserved CPU is missing, or an option does not support the host.
    """
    enabled = {name for name, text in config.cpu_manager_policy_options.items() if parse_bool(text)}
    chosen = CpuOptions(
        full_cores="full-pcpus-only" in enabled,
        distribute="distribute-cpus-across-numa" in enabled,
        by_socket="align-by-socket" in enabled,
        across_cores="distribute-cpus-across-cores" in enabled,
        strict="strict-cpu-reservation" in enabled,
        by_cache="prefer-align-cpus-by-uncorecache" in enabled,
    )
    sockets, nodes = len(topology.ids("socket")), len(topology.ids("node"))
    if chosen.by_socket and sockets > nodes:
        rule = f"requires at least as many NUMA nodes as sockets; this host has {nodes} and {sockets}"
        raise _wrong("cpuManagerPolicyOptions.align-by-socket", "true", rule)
    return CpuAssignments(topology, _reserved_cpus(config, topology), chosen)


def _reserved_cpus(config: NodeAgentConfiguration, topology: Topology) -> frozenset[int]:
    named = parse_cpu_list(config.reserved_system_cpus)
    if named:
        if not named <= topology.all:
            online = format_cpu_list(topology.all)
            raise _wrong("reservedSystemCPUs", config.reserved_system_cpus, f"must be among the online CPUs {online}")
        return named
    count = -(-all_reserved(config).get(CPU, Quantity()).milli_value() // 1000)
    if not count:
        rule = "static requires reserved CPU: set reservedSystemCPUs, or cpu in systemReserved or platformReserved"
        raise _wrong("cpuManagerPolicy", None, rule)
    if count > len(topology.cpus):
        rule = f"static requires {count} reserved CPUs, and the host has {len(topology.cpus)}"
        raise _wrong("cpuManagerPolicy", None, rule)
    return take_packed(topology, topology.all, count)


def make_memory(config: NodeAgentConfiguration, topology: Topology) -> MemoryAssignments:
    """Return the assignments of policy ``Static`` without containers.

    :raises ConfigError: ``reservedMemory`` names a missing node, exceeds the memory of a node, or does not add up to
     the other reservations.
    """
    reserved: dict[int, dict[str, int]] = {}
    total: dict[str, Quantity] = {}
    for index, reservation in enumerate(config.reserved_memory):
        path, number = f"reservedMemory[{index}]", reservation.numa_node
        node = topology.nodes.get(number)
        if node is None:
            raise _wrong(f"{path}.numaNode", number, "is not a NUMA node of this host")
        sizes = {MEMORY: node.memory, **node.huge_pages}
        for resource, amount in reservation.limits.items():
            if amount.value() > sizes.get(resource, 0):
                raise _wrong(
                    f"{path}.limits.{resource}",
                    str(amount),
                    f"exceeds the size of NUMA node {number}: {sizes.get(resource, 0)} bytes",
                )
            reserved.setdefault(number, {})[resource] = amount.value()
        add(total, reservation.limits)
    expected = _kept_back(config, Quantity(sum(node.memory for node in topology.nodes.values())))
    for resource in sorted({*total, MEMORY}):
        ours, theirs = total.get(resource, Quantity()), expected.get(resource, Quantity())
        if ours != theirs:
            rule = f"must add up for {resource} to systemReserved, platformReserved and evictionHard: {theirs}"
            raise _wrong("reservedMemory", str(ours), rule)
    if not total.get(MEMORY):
        raise _wrong("memoryManagerPolicy", None, "Static requires reservedMemory")
    return MemoryAssignments(topology, reserved)


def _kept_back(config: NodeAgentConfiguration, capacity: Quantity) -> Mapping[str, Quantity]:
    kept = all_reserved(config)
    add(kept, reserved_for_eviction(config.eviction_hard, {MEMORY: capacity}))
    return kept


def _wrong(field: str, value: object, rule: str) -> ConfigError:
    return ConfigError([Problem(_SOURCE, field, value, rule)])
