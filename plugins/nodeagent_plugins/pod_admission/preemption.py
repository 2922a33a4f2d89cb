"""Select the minimal set of lower-priority pods to preempt for a critical pod. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from nodeagent.model.pod import Pod
from nodeagent.model.qos import QosClass, is_critical, qos_class
from nodeagent.model.resources import CPU, MEMORY

Requests = Callable[[Pod], Mapping[str, int]]
"""Requests of a pod, in billionths by resource."""


def victims(pod: Pod, others: Iterable[Pod], lacking: Mapping[str, int], requests: Requests) -> list[Pod]:
    """Return the pods to preempt so that *pod* gets the resources it is *lacking*; empty if impossible.

    BestEffort pods are preempted before Burstable ones, and those before Guaranteed ones; within a class the pod whose
    requests are closest to the missing resources is preempted.
    """
    classes: dict[QosClass, list[Pod]] = {quality: [] for quality in QosClass}
    for other in others:
        if may_preempt(pod, other):
            classes[qos_class(other)].append(other)
    best_effort, burstable = classes[QosClass.BEST_EFFORT], classes[QosClass.BURSTABLE]
    guaranteed = classes[QosClass.GUARANTEED]
    if _less(lacking, [*best_effort, *burstable, *guaranteed], requests):
        return []
    from_guaranteed = _fewest(guaranteed, _less(lacking, [*best_effort, *burstable], requests), requests)
    from_burstable = _fewest(burstable, _less(lacking, [*best_effort, *from_guaranteed], requests), requests)
    rest = _less(lacking, [*from_burstable, *from_guaranteed], requests)
    return [*_fewest(best_effort, rest, requests), *from_burstable, *from_guaranteed]


def may_preempt(pod: Pod, other: Pod) -> bool:
    """Return whether *other* can be preempted for *pod*: it is not critical, or has a lower priority."""
    if is_critical(pod) and not is_critical(other):
        return True
    mine, theirs = pod.spec.priority, other.spec.priority
    return mine is not None and theirs is not None and mine > theirs


def _fewest(pods: Sequence[Pod], lacking: Mapping[str, int], requests: Requests) -> list[Pod]:
    left, chosen = list(pods), list[Pod]()
    while lacking and left:
        best = min(left, key=lambda pod: (_distance(requests(pod), lacking), _size(requests(pod))))
        left.remove(best)
        chosen.append(best)
        lacking = _less(lacking, [best], requests)
    return chosen


def _less(lacking: Mapping[str, int], pods: Iterable[Pod], requests: Requests) -> dict[str, int]:
    """Return the missing resources after *pods* are preempted."""
    rest = dict(lacking)
    for pod in pods:
        for name, amount in requests(pod).items():
            if name in rest:
                rest[name] -= amount
    return {name: amount for name, amount in rest.items() if amount > 0}


def _distance(has: Mapping[str, int], lacking: Mapping[str, int]) -> float:
    """Return the distance of a pod's requests from the missing resources: the sum of squares of missing shares."""
    return sum((max(0.0, amount - has.get(name, 0)) / amount) ** 2 for name, amount in lacking.items())


def _size(has: Mapping[str, int]) -> tuple[int, int]:
    return has.get(MEMORY, 0), has.get(CPU, 0)
