"""Graceful node shutdown: order and grace periods of pods. No I/O; shared with ``shutdown rehearse``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nodeagent.base.gates import FeatureGates
from nodeagent.base.structs import Struct
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.model.pod import Pod
from nodeagent.model.qos import SYSTEM_CRITICAL_PRIORITY


class ShutdownPeriods(Struct, frozen=True):
    """Lowest priority and period in seconds of each group, in ascending order; empty if graceful shutdown is off.

    spec: config.shutdownGracePeriod, config.shutdownGracePeriodCriticalPods, config.shutdownGracePeriodByPodPriority
    """

    entries: Sequence[tuple[int, int]] = ()
    by_priority: bool = False
    """True if the total is the largest period among the priorities present, instead of the sum."""

    def total(self, present: Iterable[int] | None = None) -> int:
        """Return the total time in seconds for all pods of a node to terminate.

        :param present: the periods of the groups that have pods; defaults to all groups.
        """
        seconds = [period for _, period in self.entries] if present is None else list(present)
        return max(seconds, default=0) if self.by_priority else sum(seconds)


class ShutdownPod(Struct, frozen=True):
    """The fields of a pod that graceful node shutdown uses."""

    namespace: str
    name: str
    uid: str
    priority: int
    grace_seconds: int | None
    """The pod's termination grace period."""

    @classmethod
    def of(cls, pod: Pod) -> ShutdownPod:
        """Return the fields of *pod*."""
        spec = pod.spec
        grace = spec.termination_grace_period_seconds
        return cls(pod.namespace, pod.name, pod.uid, spec.priority or 0, grace)


class ShutdownGroup(Struct, frozen=True):
    """Pods that terminate together, within ``seconds``."""

    priority: int
    seconds: int
    pods: Sequence[ShutdownPod]


class ShutdownStep(Struct, frozen=True):
    """Timing of one group if every earlier group uses its complete period."""

    priority: int
    starts_after_seconds: float
    """Latest start; earlier if the pods of earlier groups terminate early."""
    waits_seconds: float
    pods: Sequence[tuple[ShutdownPod, int]]
    """The pods, each with its grace period in seconds."""


def shutdown_periods(config: NodeAgentConfiguration, gates: FeatureGates) -> ShutdownPeriods:
    """Return the configured periods, from either form of the configuration."""
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

    A pod belongs to the highest entry that is not above its priority; a pod below all entries belongs to the lowest.
    """
    group_pods: list[list[ShutdownPod]] = [[] for _ in periods.entries]
    for pod in pods:
        below = sum(1 for priority, _ in periods.entries if priority <= pod.priority)
        group_pods[max(0, below - 1)].append(pod)
    pairs = zip(periods.entries, group_pods, strict=True)
    return [ShutdownGroup(priority, seconds, group) for (priority, seconds), group in pairs if group]


def share_of(groups: Sequence[ShutdownGroup], left_seconds: float) -> float:
    """Return the time to wait for the first of *groups* if *left_seconds* are left for all of them.

    A group gets its period if the time suffices for all groups, otherwise a proportional share, so that pods that
    terminate late do not shorten the share of later groups.
    """
    requested = sum(group.seconds for group in groups)
    if not requested:
        return 0.0
    return max(0.0, min(groups[0].seconds, left_seconds * groups[0].seconds / requested))


def grace_of(pod: ShutdownPod, group: ShutdownGroup, left_seconds: float) -> int:
    """Return the grace period of *pod* in seconds if *left_seconds* are left for its group and all later ones."""
    grace = min(group.seconds, max(0, math.ceil(left_seconds)))
    return grace if pod.grace_seconds is None else min(grace, pod.grace_seconds)


def rehearse(periods: ShutdownPeriods, pods: Iterable[ShutdownPod]) -> Iterator[ShutdownStep]:
    """Yield the steps of a shutdown in which every group uses its complete period."""
    groups = shutdown_groups(periods, pods)
    total = periods.total(group.seconds for group in groups)
    elapsed = 0.0
    for index, group in enumerate(groups):
        left = total - elapsed
        waits = share_of(groups[index:], left)
        yield ShutdownStep(group.priority, elapsed, waits, [(pod, grace_of(pod, group, left)) for pod in group.pods])
        elapsed += waits


# --- plan file, written by the agent for the rehearsal ---------------------------------------------------------


def plan_file(root_dir: Path) -> Path:
    """Return the path of the running agent's shutdown plan."""
    return root_dir / "shutdown_plan.json"


class ShutdownPlan(Struct, frozen=True):
    """The shutdown plan of a running agent."""

    periods: ShutdownPeriods
    pods: Sequence[ShutdownPod] = ()
    problem: str = ""
    """Reason why the system would not wait for the agent; empty while it would."""


def plan_to_json(plan: ShutdownPlan) -> dict[str, Any]:
    """Return *plan* as JSON; inverse of :func:`plan_from_json`."""
    return {
        "entries": [list(entry) for entry in plan.periods.entries],
        "byPriority": plan.periods.by_priority,
        "pods": msgspec.to_builtins(plan.pods),
        "problem": plan.problem,
    }


def plan_from_json(plan: Mapping[str, Any]) -> ShutdownPlan:
    """Return a plan from JSON; inverse of :func:`plan_to_json`.

    :raises ValueError: *plan* is not a valid plan.
    """
    try:
        entries = [(int(priority), int(seconds)) for priority, seconds in plan["entries"]]
        periods, pods = ShutdownPeriods(entries, bool(plan["byPriority"])), [ShutdownPod(**pod) for pod in plan["pods"]]
        return ShutdownPlan(periods, pods, str(plan.get("problem", "")))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"invalid shutdown plan: {error!r}") from error
