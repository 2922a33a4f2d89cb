"""How much of the machine pods may have. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nodeagent.base.quantity import Quantity, parse_quantity
from nodeagent.config.reservations import all_reserved
from nodeagent.config.rules.managers import parse_cpu_list
from nodeagent.config.types import NodeAgentConfiguration
from nodeagent.errors import Problem
from nodeagent.model.eviction_thresholds import reserved_for_eviction
from nodeagent.model.resources import HUGEPAGES_PREFIX, MEMORY, Amounts, add

_SOURCE = "configuration"


def compute_allocatable(capacity: Mapping[str, str], config: NodeAgentConfiguration) -> dict[str, str]:
    """Return *capacity* less what is reserved and what hard eviction keeps free; never below zero.

    Huge pages are set aside from memory when the machine starts, so ordinary memory shrinks by them.
    spec: config.systemReserved, config.platformReserved, config.reservedSystemCPUs
    """
    total = {name: parse_quantity(amount) for name, amount in capacity.items()}
    kept = _kept_back(total, config)
    for name, amount in total.items():
        if name.startswith(HUGEPAGES_PREFIX):
            add(kept, {MEMORY: amount})
    nothing = Quantity()
    return {name: str(max(amount - kept.get(name, nothing), nothing)) for name, amount in total.items()}


def check_reservations(
    capacity: Mapping[str, str], config: NodeAgentConfiguration, online: Collection[int]
) -> list[Problem]:
    """Return what is wrong with the reservations on this very machine.

    :param online: the numbers of the CPUs that are online.
    """
    problems = []
    cpus = parse_cpu_list(config.reserved_system_cpus)
    if not cpus <= set(online):
        missing = ", ".join(map(str, sorted(cpus - set(online))))
        rule = f"must be among the CPUs that are online; these are not: {missing}"
        problems.append(Problem(_SOURCE, "reservedSystemCPUs", config.reserved_system_cpus, rule))
    total = {name: parse_quantity(amount) for name, amount in capacity.items()}
    for name, amount in _kept_back(total, config).items():
        if name in total and amount > total[name]:
            rule = (
                f"invalid Node Allocatable configuration: systemReserved, platformReserved and evictionHard together "
                f"keep back {amount} of {name}, and this machine has {total[name]}"
            )
            problems.append(Problem(_SOURCE, "", None, rule))
    return problems


def _kept_back(total: Amounts, config: NodeAgentConfiguration) -> Amounts:
    kept = all_reserved(config)
    add(kept, reserved_for_eviction(config.eviction_hard, total))
    return kept
