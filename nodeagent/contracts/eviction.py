"""Contracts for node-pressure eviction: reclaiming, candidates and the eviction plan."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from nodeagent.base.structs import Struct
from nodeagent.contracts.stats import PodUsage
from nodeagent.model.pod import Pod
from nodeagent.model.wire import WireStruct

PLAN_QUERY = "evict.plan"
"""Local query: takes a :class:`PlanRequest`, returns an :class:`EvictionPlan`."""


class Reclaimed(Struct, frozen=True):
    """Resources freed on a file system."""

    bytes: int
    items: Sequence[str] = ()
    """Names of removed images, containers or files, for the log and ``evict plan``."""


class EvictionCandidate(Struct, frozen=True):
    """A pod that could be evicted, with its last measured usage."""

    pod: Pod
    usage: PodUsage | None


# --- eviction plan --------------------------------------------------------------------------------------------


class ThresholdMaps(WireStruct, frozen=True):
    """The four eviction settings of the configuration."""

    hard: dict[str, str] = msgspec.field(default_factory=dict)
    soft: dict[str, str] = msgspec.field(default_factory=dict)
    soft_grace: dict[str, str] = msgspec.field(default_factory=dict)
    minimum_reclaim: dict[str, str] = msgspec.field(default_factory=dict)


class PlanRequest(WireStruct, frozen=True):
    """Request for an eviction plan.

    :ivar thresholds: used instead of the configured thresholds.
    :ivar signal: the signal to rank pods for if no threshold is met.
    """

    thresholds: ThresholdMaps | None = None
    signal: str = ""


class PlannedThreshold(WireStruct, frozen=True, omit_defaults=False):
    """A threshold and the available amount. ``quantity`` is its limit in bytes, inodes or processes, 0 if unknown."""

    signal: str
    hard: bool
    limit: str
    quantity: int = 0
    available: int | None = None
    capacity: int | None = None
    met: bool = False
    due_in_seconds: float | None = None
    """Time until pods would be evicted for it; ``None`` if it is not met."""
    minimum_reclaim: str = ""


class EvictionOutcome(StrEnum):
    """Predicted outcome for a pod."""

    EVICT = "evict"
    """Would be evicted now."""
    NEXT = "next"
    """Would be evicted if evicting the pods before it did not suffice."""
    CRITICAL = "critical"
    """Critical pods are never evicted."""
    SPARED = "spared"
    """Exempt: a plugin vetoes the eviction."""
    ENDING = "ending"
    """Already terminating."""


class PlannedPod(WireStruct, frozen=True, omit_defaults=False):
    """A pod, in order of eviction."""

    namespace: str
    name: str
    uid: str
    verdict: EvictionOutcome  # wording: ok
    why: str
    plugin: str = ""
    """The plugin that vetoes the eviction."""


class EvictionPlan(WireStruct, frozen=True, omit_defaults=False):
    """The pods that would be evicted now, in order and with reasons."""

    node: str
    conditions: list[str]
    """Pressure conditions of the node."""
    thresholds: list[PlannedThreshold]
    signal: str = ""
    """The signal that pods would be evicted for; empty if no threshold is met or its grace period has not passed."""
    ranked_for: str = ""
    """The signal that ``pods`` are ranked for."""
    reclaims_disk: bool = False
    """True if images and dead containers are removed first, and pods are evicted only if that does not suffice."""
    pods: list[PlannedPod] = msgspec.field(default_factory=list)
    over_limits: list[PlannedPod] = msgspec.field(default_factory=list)
    """Pods that exceed their own limits; these are evicted regardless of thresholds."""
