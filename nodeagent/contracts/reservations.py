"""Resources that the configuration reserves, and the pod limit. No I/O."""

from __future__ import annotations

from nodeagent.base.cpu_list import parse_cpu_list
from nodeagent.base.quantity import Quantity
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.model.resources import CPU, Amounts, add, amounts


def system_reserved(config: NodeAgentConfiguration) -> Amounts:
    """Return the resources reserved for the system; ``reservedSystemCPUs`` replaces its quantity of ``cpu``.

    spec: config.systemReserved, config.reservedSystemCPUs
    """
    reserved = amounts(dict(config.system_reserved))
    cpus = parse_cpu_list(config.reserved_system_cpus)
    return {**reserved, CPU: Quantity(len(cpus))} if cpus else reserved


def platform_reserved(config: NodeAgentConfiguration) -> Amounts:
    """Return the resources reserved for the platform; ``reservedSystemCPUs`` replaces its quantity of ``cpu``.

    spec: config.platformReserved, config.reservedSystemCPUs
    """
    reserved = amounts(dict(config.platform_reserved))
    if parse_cpu_list(config.reserved_system_cpus):
        reserved.pop(CPU, None)
    return reserved


def all_reserved(config: NodeAgentConfiguration) -> Amounts:
    """Return the resources reserved for system and platform in total."""
    total = system_reserved(config)
    add(total, platform_reserved(config))
    return total


def without_reserved(capacity: Amounts, config: NodeAgentConfiguration) -> Amounts:
    """Return *capacity* minus all reservations, at least zero: the limit of all pods in total."""
    reserved, nothing = all_reserved(config), Quantity()
    return {name: max(amount - reserved.get(name, nothing), nothing) for name, amount in capacity.items()}


def pod_capacity(config: NodeAgentConfiguration, cores: int) -> int:
    """Return the pod limit of the node; a ``podsPerCore`` of 0 disables the limit per core.

    spec: config.maxPods, config.podsPerCore
    """
    per_core = config.pods_per_core * cores
    return min(config.max_pods, per_core) if per_core else config.max_pods
