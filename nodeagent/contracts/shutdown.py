"""In which order and with how much time pods end when the node shuts down. Pure; shared with ``shutdown rehearse``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nodeagent.base.gates import FeatureGates
from nodeagent.config.types import NodeAgentConfiguration
from nodeagent.model.pod import Pod
from nodeagent.model.qos import SYSTEM_CRITICAL_PRIORITY


@dataclass(frozen=True, slots=True)
class ShutdownPeriods:
    """Lowest priority and seconds of each group, lowest priority first; none when graceful shutdown is off.

    spec: config.shutdownGracePeriod, config.shutdownGracePeriodCriticalPods, config.shutdownGracePeriodByPodPriority
    """

    entries: Sequence[tuple[int, int]] = ()
    by_priority: bool = False
    """Whether the whole takes as long as the largest entry among the priorities present, instead of the sum."""

    def total(self, present: Iterable[int] | None = None) -> int:
        """Return how many seconds the pods of a node have to end.

        :param present: the seconds of the groups that have pods; all groups when not given.
        """
        seconds = [period for _, period in self.entries] if present is None else list(present)
        return max(seconds, default=0) if self.by_priority else sum(seconds)


@dataclass(frozen=True, slots=True)
class ShutdownPod:
    """What counts of a pod when the node shuts down."""

    namespace: str
    name: str
    uid: str
    priority: int
    grace_seconds: int | None
    """The pod's own grace period."""

    @classmethod
    def of(cls, pod: Pod) -> ShutdownPod:
        spec = pod.spec
        grace = spec.termination_grace_period_seconds
        return cls(pod.namespace, pod.name, pod.uid, spec.priority or 0, grace)


@dataclass(frozen=True, slots=True)
class ShutdownGroup:
    """Pods that end together, in at most ``seconds``."""

    priority: int
    seconds: int
    pods: Sequence[ShutdownPod]


@dataclass(frozen=True, slots=True)
class ShutdownStep:
    """What becomes of one group when every group before it took all the time it may take."""

    priority: int
    starts_after_seconds: float
    """At the latest; sooner when the pods before it ended sooner."""
    waits_seconds: float
    pods: Sequence[tuple[ShutdownPod, int]]
    """The pods, each with its grace in seconds."""


def shutdown_periods(config: NodeAgentConfiguration, gates: FeatureGates) -> ShutdownPeriods:
    """Return what the configuration asks for, whichever way it is written."""
    if not gates.enabled("GracefulNodeShutdown"):
        return ShutdownPeriods()
    by_priority = config.shutdown_grace_period_by_pod_priority
    if by_priority and gates.enabled("GracefulNodeShutdownBasedOnPodPriority"):
        entries = sorted((entry.priority, entry.shutdown_grace_period_seconds) for entry in by_priority)
        return ShutdownPeriods(entries, by_priority=True)
    total, critical = config.shutdown_grace_period.seconds, config.shutdown_grace_period_critical_pods.seconds
    if not total:
        return ShutdownPeriods()
    return ShutdownPeriods(((0, int(total - critical)), (SYSTEM_CRITICAL_PRIORITY, int(critical))))


def shutdown_groups(periods: ShutdownPeriods, pods: Iterable[ShutdownPod]) -> list[ShutdownGroup]:
    """Return the groups that have pods, lowest priority first.

    A pod belongs to the highest entry that is not above its priority, one below all entries to the lowest.
    """
    members: list[list[ShutdownPod]] = [[] for _ in periods.entries]
    for pod in pods:
        below = sum(1 for priority, _ in periods.entries if priority <= pod.priority)
        members[max(0, below - 1)].append(pod)
    pairs = zip(periods.entries, members, strict=True)
    return [ShutdownGroup(priority, seconds, group) for (priority, seconds), group in pairs if group]


def share_of(groups: Sequence[ShutdownGroup], left_seconds: float) -> float:
    """Return how long to wait for the first of *groups* when *left_seconds* are left for all of them.

    A group gets its period where the time suffices for all, else its part of the time: whoever ends late takes
    nothing from those that are still to come.
    """
    wanted = sum(group.seconds for group in groups)
    if not wanted:
        return 0.0
    return max(0.0, min(groups[0].seconds, left_seconds * groups[0].seconds / wanted))


def grace_of(pod: ShutdownPod, group: ShutdownGroup, left_seconds: float) -> int:
    """Return the seconds that *pod* gets to end by itself when *left_seconds* are left for it and all after it."""
    grace = min(group.seconds, max(0, math.ceil(left_seconds)))
    return grace if pod.grace_seconds is None else min(grace, pod.grace_seconds)


def rehearse(periods: ShutdownPeriods, pods: Iterable[ShutdownPod]) -> Iterator[ShutdownStep]:
    """Yield what would happen to *pods*, each group taking as long as it may."""
    groups = shutdown_groups(periods, pods)
    total = periods.total(group.seconds for group in groups)
    elapsed = 0.0
    for index, group in enumerate(groups):
        left = total - elapsed
        waits = share_of(groups[index:], left)
        yield ShutdownStep(group.priority, elapsed, waits, [(pod, grace_of(pod, group, left)) for pod in group.pods])
        elapsed += waits


# --- what a running agent leaves for the rehearsal ------------------------------------------------------------


def plan_file(root_dir: Path) -> Path:
    """Return the file in which a running agent keeps whom it would end."""
    return root_dir / "shutdown_plan.json"


@dataclass(frozen=True, slots=True)
class ShutdownPlan:
    """What a running agent would do now."""

    periods: ShutdownPeriods
    pods: Sequence[ShutdownPod] = ()
    problem: str = ""
    """Why the shutdown would not wait for it; empty while it would."""


def plan_to_json(plan: ShutdownPlan) -> dict[str, Any]:
    """Return what :func:`plan_from_json` reads."""
    return {
        "entries": [list(entry) for entry in plan.periods.entries],
        "byPriority": plan.periods.by_priority,
        "pods": [asdict(pod) for pod in plan.pods],
        "problem": plan.problem,
    }


def plan_from_json(plan: Mapping[str, Any]) -> ShutdownPlan:
    """Return what :func:`plan_to_json` wrote.

    :raises ValueError: *plan* is not one.
    """
    try:
        entries = [(int(priority), int(seconds)) for priority, seconds in plan["entries"]]
        periods, pods = ShutdownPeriods(entries, bool(plan["byPriority"])), [ShutdownPod(**pod) for pod in plan["pods"]]
        return ShutdownPlan(periods, pods, str(plan.get("problem", "")))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"is no plan of a shutdown: {error!r}") from error
