"""How much of the machine pods may have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodeagent.base.quantity import Quantity, parse_quantity
from nodeagent.config.types import NodeAgentConfiguration

HUGEPAGES = "hugepages-"
_EVICTION_SIGNALS = {"memory.available": "memory", "nodefs.available": "ephemeral-storage"}


def pod_capacity(config: NodeAgentConfiguration, cores: int) -> int:
    """Return how many pods the node takes; a ``podsPerCore`` of 0 sets no limit.

    spec: config.maxPods, config.podsPerCore
    """
    per_core = config.pods_per_core * cores
    return min(config.max_pods, per_core) if per_core else config.max_pods


def compute_allocatable(capacity: Mapping[str, str], config: NodeAgentConfiguration) -> dict[str, str]:
    """Return *capacity* less what is reserved and what hard eviction keeps free; never below zero.

    Huge pages are set aside from memory when the machine starts, so ordinary memory shrinks by them.
    """
    total = {name: parse_quantity(amount) for name, amount in capacity.items()}
    left = dict(total)
    for reserved in (config.system_reserved, config.platform_reserved):
        _subtract(left, ((name, parse_quantity(amount)) for name, amount in reserved.items()))
    thresholds = ((_EVICTION_SIGNALS.get(signal, ""), amount) for signal, amount in config.eviction_hard.items())
    _subtract(left, ((name, threshold(amount, total[name])) for name, amount in thresholds if name in total))
    pages = [("memory", amount) for name, amount in total.items() if name.startswith(HUGEPAGES)]
    _subtract(left, pages)
    return {name: str(max(amount, Quantity())) for name, amount in left.items()}


def threshold(text: str, capacity: Quantity) -> Quantity:
    """Return an eviction threshold as an amount; a percentage is taken of *capacity*."""
    if text.endswith("%"):
        return Quantity(int(capacity.value() * float(text[:-1]) / 100), format=capacity.format)
    return parse_quantity(text)


def _subtract(left: dict[str, Quantity], amounts: Iterable[tuple[str, Quantity]]) -> None:
    for name, amount in amounts:
        if name in left:
            left[name] = left[name] - amount
