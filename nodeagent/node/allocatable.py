"""Node Allocatable. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nodeagent.base.cpu_list import parse_cpu_list
from nodeagent.base.quantity import Quantity, parse_quantity
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.reservations import all_reserved
from nodeagent.errors import Problem
from nodeagent.model.eviction_thresholds import reserved_for_eviction
from nodeagent.model.resources import HUGEPAGES_PREFIX, MEMORY, Amounts, add

_SOURCE = "configuration"


def compute_allocatable(capacity: Mapping[str, str], config: NodeAgentConfiguration) -> dict[str, str]:
    """Return *capacity* minus reservations and hard eviction thresholds, at least zero.

    Preallocated huge pages are subtracted from memory.
    spec: config.systemReserved, config.platformReserved, config.reservedSystemCPUs
    """
    total = {name: parse_quantity(amount) for name, amount in capacity.items()}
    reserved = _reserved(total, config)
    for name, amount in total.items():
        if name.startswith(HUGEPAGES_PREFIX):
            add(reserved, {MEMORY: amount})
    zero = Quantity()
    return {name: str(max(amount - reserved.get(name, zero), zero)) for name, amount in total.items()}


def check_reservations(
    capacity: Mapping[str, str], config: NodeAgentConfiguration, online: Collection[int]
) -> list[Problem]:
    """Return the errors of the configured reservations on this host.

    :param online: the IDs of the online CPUs.
    """
    problems = []
    cpus = parse_cpu_list(config.reserved_system_cpus)
    if not cpus <= set(online):
        missing = ", ".join(map(str, sorted(cpus - set(online))))
        rule = f"must contain only online CPUs; offline or missing: {missing}"
        problems.append(Problem(_SOURCE, "reservedSystemCPUs", config.reserved_system_cpus, rule))
    total = {name: parse_quantity(amount) for name, amount in capacity.items()}
    for name, amount in _reserved(total, config).items():
        if name in total and amount > total[name]:
            rule = (
                f"invalid Node Allocatable configuration: total of systemReserved, platformReserved and evictionHard "
                f"is {amount} of {name}, but the node has {total[name]}"
            )
            problems.append(Problem(_SOURCE, "", None, rule))
    return problems


def _reserved(total: Amounts, config: NodeAgentConfiguration) -> Amounts:
    total_reserved = all_reserved(config)
    add(total_reserved, reserved_for_eviction(config.eviction_hard, total))
    return total_reserved
