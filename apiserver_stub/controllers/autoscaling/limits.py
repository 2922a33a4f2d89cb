"""Limits of a change of the number of replicas: stabilization, policies, minimum and maximum. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import field

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.structs import MutableStruct, Struct

DOWN_WINDOW_SECONDS = 300
"""Default time in which the highest recommendation takes effect."""
_UP_FACTOR, _UP_MINIMUM = 2, 4
_READY = ("ReadyForNewScale", "recommended size matches current size")
_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_UP_LIMIT = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_DOWN_LIMIT = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
_HIGHEST = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_LOWEST = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)

Reason = tuple[str, str]
"""Reason and message of a condition."""


class History(MutableStruct):
    """Earlier decisions about one autoscaler, with their monotonic times in seconds."""

    recommendations: list[tuple[float, int]] = field(default_factory=list)
    ups: list[tuple[float, int]] = field(default_factory=list)
    """Numbers of replicas that were added."""
    downs: list[tuple[float, int]] = field(default_factory=list)
    """Numbers of replicas that were removed."""


class Bounded(Struct, frozen=True):
    """Number of replicas within all limits, and the reasons for it."""

    replicas: int
    stabilization: Reason
    limit: Reason
    limited: bool


def bounded(
    desired: int, current: int, minimum: int, maximum: int, behavior: Object | None, history: History, now: float
) -> Bounded:
    """Return *desired* within the limits of an autoscaler, and add it to *history*.

    :param behavior: ``spec.behavior``, whose limits replace the default ones.
    """
    history.recommendations = history.recommendations or [(now, current)]
    if behavior is None:
        stable, reason = _highest_recent(desired, history, now)
        limit = _default_limit(stable, current, minimum, maximum)
    else:
        stable, reason = _stabilized(desired, current, behavior, history, now)
        limit = _limited_by_policies(stable, current, minimum, maximum, behavior, history, now)
    return Bounded(limit[0], reason if stable != desired else _READY, limit[1], limited=limit[0] != stable)


def record_change(before: int, after: int, behavior: Object | None, history: History, now: float) -> None:
    """Add a change of the number of replicas to *history*, for the policies of *behavior*."""
    if behavior is None:
        return
    up = after > before
    changes, rules = (
        (history.ups, _rules(behavior, "scaleUp")) if up else (history.downs, _rules(behavior, "scaleDown"))
    )
    longest = max((item["periodSeconds"] for item in rules.get("policies") or ()), default=0)
    changes[:] = [(at, count) for at, count in changes if at >= now - longest]
    changes.append((now, abs(after - before)))


def _rules(behavior: Object, name: str) -> Object:
    rules: Object = behavior.get(name) or {}
    return rules


def _highest_recent(desired: int, history: History, now: float) -> tuple[int, Reason]:
    recent = [(at, count) for at, count in history.recommendations if at > now - DOWN_WINDOW_SECONDS]
    stable = max((count for _, count in recent), default=desired)
    history.recommendations = [*recent, (now, desired)]
    return max(stable, desired), _HIGHEST


def _default_limit(desired: int, current: int, minimum: int, maximum: int) -> tuple[int, Reason]:
    fastest = max(_UP_FACTOR * current, _UP_MINIMUM)
    highest, reason = (fastest, _UP_LIMIT) if maximum > fastest else (maximum, _TOO_MANY)
    if desired < minimum:
        return minimum, _TOO_FEW
    return (highest, reason) if desired > highest else (desired, _WITHIN)


def _stabilized(desired: int, current: int, behavior: Object, history: History, now: float) -> tuple[int, Reason]:
    up_seconds = _rules(behavior, "scaleUp").get("stabilizationWindowSeconds") or 0
    down_seconds = _rules(behavior, "scaleDown").get("stabilizationWindowSeconds")
    down_seconds = DOWN_WINDOW_SECONDS if down_seconds is None else down_seconds
    lowest = highest = desired
    for at, count in history.recommendations:
        if at > now - up_seconds:
            lowest = min(lowest, count)
        if at > now - down_seconds:
            highest = max(highest, count)
    oldest = now - max(up_seconds, down_seconds)
    history.recommendations = [*((at, count) for at, count in history.recommendations if at > oldest), (now, desired)]
    stable = min(max(current, lowest), highest)
    return stable, _LOWEST if desired >= current else _HIGHEST


def _limited_by_policies(
    desired: int, current: int, minimum: int, maximum: int, behavior: Object, history: History, now: float
) -> tuple[int, Reason]:
    if desired > current:
        fastest = max(_fastest_up(current, _rules(behavior, "scaleUp"), history, now), current)
        highest, reason = (fastest, _UP_LIMIT) if maximum > fastest else (maximum, _TOO_MANY)
        if desired > highest:
            return highest, reason
    elif desired < current:
        fastest = min(_fastest_down(current, _rules(behavior, "scaleDown"), history, now), current)
        lowest, reason = (fastest, _DOWN_LIMIT) if minimum < fastest else (minimum, _TOO_FEW)
        if desired < lowest:
            return lowest, reason
    return desired, _WITHIN


def _fastest_up(current: int, rules: Object, history: History, now: float) -> int:
    policy = rules.get("selectPolicy") or "Max"
    if policy == "Disabled":
        return current
    proposals = []
    for item in rules.get("policies") or ():
        start = _at_start(current, item["periodSeconds"], history, now)
        if item["type"] == "Pods":
            proposals.append(start + item["value"])
        else:
            proposals.append(math.ceil(start * (1 + item["value"] / 100)))
    return min(proposals, default=current) if policy == "Min" else max(proposals, default=current)


def _fastest_down(current: int, rules: Object, history: History, now: float) -> int:
    policy = rules.get("selectPolicy") or "Max"
    if policy == "Disabled":
        return current
    proposals = []
    for item in rules.get("policies") or ():
        start = _at_start(current, item["periodSeconds"], history, now)
        if item["type"] == "Pods":
            proposals.append(start - item["value"])
        else:
            proposals.append(int(start * (1 - item["value"] / 100)))
    return max(proposals, default=current) if policy == "Min" else min(proposals, default=current)


def _at_start(current: int, seconds: int, history: History, now: float) -> int:
    """Return the number of replicas at the start of the period of *seconds* that ends now."""
    return current - _sum(history.ups, seconds, now) + _sum(history.downs, seconds, now)


def _sum(changes: Sequence[tuple[float, int]], seconds: int, now: float) -> int:
    return sum(count for at, count in changes if at > now - seconds)
