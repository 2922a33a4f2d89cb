"""Metrics of the memory that MemoryQoS protects from reclaim."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.base.metrics import SampledGauge
from nodeagent.model.qos import QosClass
from nodeagent_plugins.cgroups.qos import ResourceRequests
from nodeagent_plugins.cgroups.resources import MemoryReservation

_HARD_BYTES = SampledGauge(
    "memory_qos_node_memory_min_bytes",
    "Total cgroup v2 memory.min in bytes for Guaranteed pods. This memory is hard-reserved and never reclaimed by the "
    "kernel.",
)
_SOFT_BYTES = SampledGauge(
    "memory_qos_node_memory_low_bytes",
    "Total cgroup v2 memory.low in bytes for Burstable pods. This memory is soft-reserved and may be reclaimed under "
    "extreme pressure.",
)


def expose_reservation(requests: Mapping[QosClass, ResourceRequests], reservation: MemoryReservation) -> None:
    """Expose the protected memory of the classes; not before release 1.36."""
    if reservation is MemoryReservation.MIN:
        return
    tiered = reservation is MemoryReservation.TIERED
    hard, soft = (requests[qos].memory_bytes * tiered for qos in (QosClass.GUARANTEED, QosClass.BURSTABLE))
    _HARD_BYTES.sample = lambda: {(): hard}
    _SOFT_BYTES.sample = lambda: {(): soft}
