"""How plugins help a node under pressure, and how the agent tells what it would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from nodeagent.contracts.stats import PodUsage
from nodeagent.model.pod import Pod
from nodeagent.model.wire import WireStruct

PLAN_QUERY = "evict.plan"
"""Asked with a :class:`PlanRequest` on the agent's local socket, answered with an :class:`EvictionPlan`."""


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What was freed on a disk."""

    bytes: int
    items: Sequence[str] = ()
    """Names of images, containers or files that are gone, for the log and ``evict plan``."""


@dataclass(frozen=True, slots=True)
class EvictionCandidate:
    """A pod that could be evicted, with its use when it was measured."""

    pod: Pod
    usage: PodUsage | None


# --- what would go now ----------------------------------------------------------------------------------------


class ThresholdMaps(WireStruct, frozen=True):
    """The four maps of the configuration."""

    hard: dict[str, str] = msgspec.field(default_factory=dict)
    soft: dict[str, str] = msgspec.field(default_factory=dict)
    soft_grace: dict[str, str] = msgspec.field(default_factory=dict)
    minimum_reclaim: dict[str, str] = msgspec.field(default_factory=dict)


class PlanRequest(WireStruct, frozen=True):
    """Asks what would be evicted.

    :ivar thresholds: instead of those in force.
    :ivar signal: rank the pods for this signal when nothing is short.
    """

    thresholds: ThresholdMaps | None = None
    signal: str = ""


class PlannedThreshold(WireStruct, frozen=True, omit_defaults=False):
    """A threshold and what is left. ``quantity`` is its limit in bytes, inodes or processes, 0 while unknown."""

    signal: str
    hard: bool
    limit: str
    quantity: int = 0
    available: int | None = None
    capacity: int | None = None
    met: bool = False
    due_in_seconds: float | None = None
    """When pods would be evicted for it; ``None`` when it is not met."""
    minimum_reclaim: str = ""


class EvictionOutcome(StrEnum):
    """What would become of a pod."""

    EVICT = "evict"
    """It would go now."""
    NEXT = "next"
    """It would go after those before it, if they were not enough."""
    CRITICAL = "critical"
    """It is never evicted."""
    SPARED = "spared"
    """A plugin keeps it."""
    ENDING = "ending"
    """It is on its way out."""


class PlannedPod(WireStruct, frozen=True, omit_defaults=False):
    """A pod in the order of eviction."""

    namespace: str
    name: str
    uid: str
    verdict: EvictionOutcome
    why: str
    plugin: str = ""
    """Who spares it."""


class EvictionPlan(WireStruct, frozen=True, omit_defaults=False):
    """What would go now, in which order and why."""

    node: str
    conditions: list[str]
    """Those that the node shows."""
    thresholds: list[PlannedThreshold]
    signal: str = ""
    """What pods would be evicted for; empty when nothing is short, or something is and its grace has not passed."""
    ranked_for: str = ""
    """The signal that ``pods`` are in order for."""
    reclaims_disk: bool = False
    """Whether images and dead containers would go first, and pods only if that were not enough."""
    pods: list[PlannedPod] = msgspec.field(default_factory=list)
    over_limits: list[PlannedPod] = msgspec.field(default_factory=list)
    """Pods that exceed limits of their own; these go whatever the thresholds say."""
