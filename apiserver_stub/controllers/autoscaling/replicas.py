"""Numbers of replicas that metrics require. No I/O.

The load of pods without a metric, and of pods that are not ready, is estimated so that it cannot cause a change: it
counts as the target when the others require fewer replicas, and as zero when they require more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from apiserver_stub.controllers.autoscaling.pod_groups import PodMetric, group_pods
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.controllers.views import PodView

_NO_PODS = "no pods returned by selector while calculating replica count"
_NO_METRICS = "did not receive metrics for targeted pods (pods might be unready)"
_UNKNOWN_PODS = "no metrics returned matched known pods"


class NoReplicaCount(Exception):
    """The metrics do not determine a number of replicas."""


class Tolerance(Struct, frozen=True):
    """Relative differences between metric and target that cause no change."""

    down: float = 0.1
    up: float = 0.1

    def covers(self, ratio: float) -> bool:
        """Return whether *ratio*, the metric divided by its target, causes no change."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class PodLoad(Struct, frozen=True):
    """Number of replicas for a metric of the pods, with the observed values."""

    replicas: int
    average: int
    """In thousandths."""
    utilization: int = 0
    """Percentage of the requests."""


def for_utilization(
    current: int,
    target: int,
    resource: str,
    metrics: Mapping[str, PodMetric],
    pods: Sequence[PodView],
    requests_of: Callable[[Sequence[PodView]], Mapping[str, int]],
    tolerance: Tolerance,
    now: datetime,
) -> PodLoad:
    """Return the number of replicas at which the pods use *target* percent of their requests.

    :param current: current number of replicas.
    :param requests_of: returns the requests of pods by name, in thousandths.
    :raises NoReplicaCount: there are no pods or no metrics.
    """
    groups = group_pods(_existing(pods), metrics, resource, now)
    known = _without(metrics, groups.ignored | groups.unready)
    if not known:
        raise NoReplicaCount(_NO_METRICS)
    requests = requests_of(pods)

    def measure(values: Mapping[str, int]) -> tuple[float, int, int]:
        used = {name: value for name, value in values.items() if name in requests}
        total = sum(requests[name] for name in used)
        if not total:
            raise NoReplicaCount(_UNKNOWN_PODS)
        utilization = sum(used.values()) * 100 // total
        return utilization / target, utilization, sum(used.values()) // len(used)

    ratio, utilization, average = measure(known)
    fallback = max(100, target)
    full = {name: requests.get(name, 0) * fallback // 100 for name in groups.missing}
    replicas = _replicas(
        current, ratio, known, groups.ready, full, groups.unready, lambda values: measure(values)[0], tolerance
    )
    return PodLoad(replicas, average, utilization)


def for_average(
    current: int,
    target: int,
    resource: str,
    metrics: Mapping[str, PodMetric],
    pods: Sequence[PodView],
    tolerance: Tolerance,
    now: datetime,
) -> PodLoad:
    """Return the number of replicas at which the average of *metrics* is *target*, in thousandths.

    :param current: current number of replicas.
    :param resource: resource that *metrics* measure, empty for another metric.
    :raises NoReplicaCount: there are no pods or no metrics.
    """
    groups = group_pods(_existing(pods), metrics, resource, now)
    known = _without(metrics, groups.ignored | groups.unready)
    if not known:
        raise NoReplicaCount(_NO_METRICS)

    def ratio_of(values: Mapping[str, int]) -> float:
        return sum(values.values()) // len(values) / target

    average = sum(known.values()) // len(known)
    full = dict.fromkeys(groups.missing, target)
    replicas = _replicas(current, average / target, known, groups.ready, full, groups.unready, ratio_of, tolerance)
    return PodLoad(replicas, average)


def for_value(current: int, ready: int, ratio: float, tolerance: Tolerance) -> int:
    """Return the number of replicas for a value that all pods share, *ratio* times its target.

    :param current: current number of replicas.
    :param ready: number of ready pods.
    """
    if current == 0:
        return math.ceil(ratio)
    return current if tolerance.covers(ratio) else math.ceil(ratio * ready)


def for_value_per_pod(current: int, value: int, target: int, tolerance: Tolerance) -> int:
    """Return the number of replicas at which each has the share *target* of *value*."""
    if current and tolerance.covers(value / (target * current)):
        return current
    return math.ceil(value / target)


def _existing(pods: Sequence[PodView]) -> Sequence[PodView]:
    if not pods:
        raise NoReplicaCount(_NO_PODS)
    return pods


def _without(metrics: Mapping[str, PodMetric], names: frozenset[str]) -> dict[str, int]:
    return {name: metric.value for name, metric in metrics.items() if name not in names}


def _replicas(
    current: int,
    ratio: float,
    known: Mapping[str, int],
    ready: int,
    full: Mapping[str, int],
    unready: frozenset[str],
    ratio_of: Callable[[Mapping[str, int]], float],
    tolerance: Tolerance,
) -> int:
    """Return the number of replicas for *ratio*, the ratio of the *known* values to the target.

    :param full: values at the target of the pods without a metric.
    """
    counts_unready = bool(unready) and ratio > 1.0
    if not counts_unready and not full:
        return current if tolerance.covers(ratio) else math.ceil(ratio * ready)
    values = dict(known)
    if ratio < 1.0:
        values |= full
    elif ratio > 1.0:
        values |= dict.fromkeys(full, 0)
    if counts_unready:
        values |= dict.fromkeys(unready, 0)
    estimated = ratio_of(values)
    if tolerance.covers(estimated) or (ratio - 1.0) * (estimated - 1.0) < 0:
        return current
    replicas = math.ceil(estimated * len(values))
    # The number of pods may differ from that of replicas, so that the result may be opposite to the estimate.
    return current if (replicas - current) * (estimated - 1.0) < 0 else replicas
