"""Tests for the limits of a change of the number of replicas."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.controllers.autoscaling.limits import Bounded, History, bounded, record_change

PODS = {"type": "Pods", "value": 2, "periodSeconds": 60}
HALF = {"type": "Percent", "value": 50, "periodSeconds": 60}


def limit(
    desired: int, current: int, *, behavior: Any = None, history: History | None = None, now: float = 1000.0
) -> Bounded:
    return bounded(desired, current, 1, 10, behavior, history or History(), now)


@pytest.mark.parametrize(
    ("desired", "current", "expected", "reason"),
    [
        (5, 3, 5, "DesiredWithinRange"),
        (9, 3, 6, "ScaleUpLimit"),
        (9, 1, 4, "ScaleUpLimit"),
        (20, 8, 10, "TooManyReplicas"),
        (20, 5, 10, "TooManyReplicas"),
        (6, 3, 6, "DesiredWithinRange"),
        (1, 1, 1, "DesiredWithinRange"),
        (0, 1, 1, "TooFewReplicas"),
    ],
)
def test_default_limits(desired: int, current: int, expected: int, reason: str) -> None:
    found = limit(desired, current, history=History([(0.0, current)]))
    assert (found.replicas, found.limit[0], found.limited) == (expected, reason, expected != desired)


def test_highest_recommendation_of_five_minutes_takes_effect() -> None:
    history = History()
    assert limit(6, 6, history=history).replicas == 6

    during = limit(2, 6, history=history, now=1200)
    after = limit(2, 6, history=History([(1000, 6)]), now=1300)

    assert (during.replicas, during.stabilization[0]) == (6, "ScaleDownStabilized")
    assert (after.replicas, after.stabilization[0]) == (2, "ReadyForNewScale")


def test_first_evaluation_assumes_that_the_current_size_was_recommended() -> None:
    assert limit(2, 6).replicas == 6


def test_windows_of_the_behavior_replace_the_default_ones() -> None:
    rules = {"policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}
    behavior = {
        "scaleUp": {**rules, "stabilizationWindowSeconds": 60},
        "scaleDown": {**rules, "stabilizationWindowSeconds": 0},
    }
    history = History()
    limit(4, 4, behavior=behavior, history=history)

    during = limit(6, 4, behavior=behavior, history=history, now=1010)
    later = limit(6, 4, behavior=behavior, history=history, now=1065)
    down = limit(2, 6, behavior=behavior, history=history, now=1070)

    assert (during.replicas, during.stabilization[0]) == (4, "ScaleUpStabilized")
    assert later.replicas == 6
    assert down.replicas == 2


@pytest.mark.parametrize(
    ("policy", "policies", "up", "down"),
    [
        ("Max", [PODS, HALF], 9, 3),
        ("Min", [PODS, HALF], 8, 4),
        ("Disabled", [PODS], 6, 6),
    ],
)
def test_policies_limit_the_rate(policy: str, policies: list[Any], up: int, down: int) -> None:
    rules = {"selectPolicy": policy, "policies": policies, "stabilizationWindowSeconds": 0}
    behavior = {"scaleUp": rules, "scaleDown": rules}
    higher = limit(10, 6, behavior=behavior)
    lower = limit(1, 6, behavior=behavior)
    assert (higher.replicas, higher.limit[0]) == (up, "ScaleUpLimit")
    assert (lower.replicas, lower.limit[0]) == (down, "ScaleDownLimit")


@pytest.mark.parametrize(
    ("desired", "current", "expected", "reason"),
    [
        (8, 6, 8, "DesiredWithinRange"),
        (9, 6, 8, "ScaleUpLimit"),
        (11, 8, 10, "TooManyReplicas"),
        (11, 9, 10, "TooManyReplicas"),
        (4, 6, 4, "DesiredWithinRange"),
        (3, 6, 4, "ScaleDownLimit"),
        (0, 3, 1, "TooFewReplicas"),
        (0, 2, 1, "TooFewReplicas"),
        (6, 6, 6, "DesiredWithinRange"),
    ],
)
def test_sizes_within_policies_and_limits(desired: int, current: int, expected: int, reason: str) -> None:
    rules = {"policies": [PODS], "stabilizationWindowSeconds": 0}
    found = limit(desired, current, behavior={"scaleUp": rules, "scaleDown": rules})
    assert (found.replicas, found.limit[0]) == (expected, reason)


def test_rate_includes_the_changes_of_the_period() -> None:
    rules = {"policies": [PODS], "stabilizationWindowSeconds": 0}
    behavior, history = {"scaleUp": rules, "scaleDown": rules}, History()
    record_change(4, 6, behavior, history, 1000)

    assert limit(10, 6, behavior=behavior, history=history, now=1030).replicas == 6
    assert limit(10, 6, behavior=behavior, history=history, now=1060).replicas == 8


def test_rate_includes_all_changes_of_the_longest_period() -> None:
    rules = {"policies": [{**PODS, "value": 5}], "stabilizationWindowSeconds": 0}
    behavior, history = {"scaleUp": rules, "scaleDown": rules}, History()
    record_change(3, 4, behavior, history, 960)
    record_change(4, 6, behavior, history, 1000)
    record_change(6, 8, behavior, history, 1030)

    assert limit(10, 8, behavior=behavior, history=history, now=1040).replicas == 9
