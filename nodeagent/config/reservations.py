"""What the configuration keeps back from pods, and how many pods it takes. Pure."""

from __future__ import annotations

from nodeagent.base.quantity import Quantity
from nodeagent.config.rules.managers import parse_cpu_list
from nodeagent.config.types import NodeAgentConfiguration
from nodeagent.model.resources import CPU, Amounts, add, amounts


def system_reserved(config: NodeAgentConfiguration) -> Amounts:
    """Return what is kept for the system; CPUs that are reserved by number replace its amount of ``cpu``.

    spec: config.systemReserved, config.reservedSystemCPUs
    """
    reserved = amounts(dict(config.system_reserved))
    cpus = parse_cpu_list(config.reserved_system_cpus)
    return {**reserved, CPU: Quantity(len(cpus))} if cpus else reserved


def platform_reserved(config: NodeAgentConfiguration) -> Amounts:
    """Return what is kept for the platform; CPUs that are reserved by number leave nothing of its amount of ``cpu``.

    spec: config.platformReserved, config.reservedSystemCPUs
    """
    reserved = amounts(dict(config.platform_reserved))
    if parse_cpu_list(config.reserved_system_cpus):
        reserved.pop(CPU, None)
    return reserved


def all_reserved(config: NodeAgentConfiguration) -> Amounts:
    """Return the sum of what is kept for system and platform."""
    total = system_reserved(config)
    add(total, platform_reserved(config))
    return total


def without_reserved(capacity: Amounts, config: NodeAgentConfiguration) -> Amounts:
    """Return *capacity* less what is reserved, never below zero: what all pods together are limited to."""
    reserved, nothing = all_reserved(config), Quantity()
    return {name: max(amount - reserved.get(name, nothing), nothing) for name, amount in capacity.items()}


def pod_capacity(config: NodeAgentConfiguration, cores: int) -> int:
    """Return how many pods the node takes; a ``podsPerCore`` of 0 sets no limit.

    spec: config.maxPods, config.podsPerCore
    """
    per_core = config.pods_per_core * cores
    return min(config.max_pods, per_core) if per_core else config.max_pods
