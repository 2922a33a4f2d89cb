"""Tests for the order and grace periods of graceful node shutdown."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.config.features import build_gates
from nodeagent.contracts.configuration import ShutdownGracePeriodByPodPriority, seconds
from nodeagent.contracts.shutdown import (
    ShutdownPeriods,
    ShutdownPlan,
    ShutdownPod,
    plan_from_json,
    plan_to_json,
    rehearse,
    shutdown_groups,
    shutdown_periods,
)
from nodeagent.testing import make_config, make_pod

CRITICAL = 2_000_000_000


def pod(name: str, priority: int = 0, grace: int | None = 30) -> ShutdownPod:
    return ShutdownPod("default", name, f"uid-{name}", priority, grace)


def entries(*pairs: tuple[int, int]) -> tuple[ShutdownGracePeriodByPodPriority, ...]:
    return tuple(
        ShutdownGracePeriodByPodPriority(priority=priority, shutdown_grace_period_seconds=period)
        for priority, period in pairs
    )


def steps(periods: ShutdownPeriods, *pods: ShutdownPod) -> list[tuple[float, float, dict[str, int]]]:
    return [
        (step.starts_after_seconds, step.waits_seconds, {pod.name: grace for pod, grace in step.pods})
        for step in rehearse(periods, pods)
    ]


# --- configuration --------------------------------------------------------------------------------------------


def test_shutdown_periods_are_empty_by_default() -> None:
    assert shutdown_periods(make_config(), build_gates({})) == ShutdownPeriods()


@pytest.mark.row("config.shutdownGracePeriod", "config.shutdownGracePeriodCriticalPods")
def test_single_period_is_split_between_regular_and_critical_pods() -> None:
    config = make_config(shutdown_grace_period=seconds(30), shutdown_grace_period_critical_pods=seconds(10))

    periods = shutdown_periods(config, build_gates({}))

    assert list(periods.entries) == [(0, 20), (CRITICAL, 10)]
    assert periods.total() == 30
    assert steps(periods, pod("web"), pod("dns", CRITICAL)) == [(0, 20, {"web": 20}), (20, 10, {"dns": 10})]


@pytest.mark.row(
    "config.shutdownGracePeriodByPodPriority",
    "type.ShutdownGracePeriodByPodPriority.priority",
    "type.ShutdownGracePeriodByPodPriority.shutdownGracePeriodSeconds",
)
def test_periods_by_priority_are_sorted_ascending() -> None:
    config = make_config(shutdown_grace_period_by_pod_priority=entries((10000, 20), (0, 60), (CRITICAL, 10)))

    periods = shutdown_periods(config, build_gates({}))

    assert list(periods.entries) == [(0, 60), (10000, 20), (CRITICAL, 10)]
    assert periods.total() == 60


@pytest.mark.parametrize(
    ("gate", "expected"),
    [("GracefulNodeShutdown", []), ("GracefulNodeShutdownBasedOnPodPriority", [])],
)
def test_disabled_feature_gate_turns_shutdown_off(gate: str, expected: list[tuple[int, int]]) -> None:
    config = make_config(shutdown_grace_period_by_pod_priority=entries((0, 60)))

    assert list(shutdown_periods(config, build_gates({gate: False})).entries) == expected


# --- who belongs together -------------------------------------------------------------------------------------


@pytest.mark.row("type.ShutdownGracePeriodByPodPriority.priority")
def test_pod_belongs_to_highest_entry_not_above_its_priority() -> None:
    periods = ShutdownPeriods([(10, 5), (100, 6), (1000, 7)], by_priority=True)
    pods = [pod("below", 0), pod("at", 100), pod("between", 999), pod("negative", -5), pod("above", CRITICAL)]

    groups = shutdown_groups(periods, pods)

    assert [(group.priority, [pod.name for pod in group.pods]) for group in groups] == [
        (10, ["below", "negative"]),
        (100, ["at", "between"]),
        (1000, ["above"]),
    ]


def test_missing_priority_counts_as_zero() -> None:
    pod = ShutdownPod.of(make_pod("web", termination_grace_period_seconds=7))

    assert pod == ShutdownPod("default", "web", "uid-web", 0, 7)
    assert ShutdownPod.of(make_pod("dns", priority=CRITICAL)).priority == CRITICAL


# --- how long each has ----------------------------------------------------------------------------------------


@pytest.mark.row("type.ShutdownGracePeriodByPodPriority.shutdownGracePeriodSeconds")
def test_grace_is_the_shorter_of_pod_and_group_period() -> None:
    periods = ShutdownPeriods([(0, 10)], by_priority=True)

    assert steps(periods, pod("quick", grace=3), pod("slow", grace=600), pod("silent", grace=None)) == [
        (0, 10, {"quick": 3, "slow": 10, "silent": 10})
    ]


@pytest.mark.row("config.shutdownGracePeriodByPodPriority")
def test_total_by_priority_is_the_largest_period_with_pods() -> None:
    periods = ShutdownPeriods([(0, 600), (10, 60), (20, 30), (30, 10)], by_priority=True)

    rehearsed = steps(periods, pod("a", 10, 900), pod("b", 20, 900), pod("c", 30, 900))

    assert [step[0] + step[1] for step in rehearsed][-1] == pytest.approx(60)
    assert rehearsed[0] == (0, 36, {"a": 60})
    assert [list(step[2].values()) for step in rehearsed[1:]] == [[24], [6]]


def test_group_without_pods_has_no_step() -> None:
    periods = ShutdownPeriods([(0, 20), (CRITICAL, 10)])

    assert steps(periods, pod("dns", CRITICAL)) == [(0, 10, {"dns": 10})]
    assert steps(periods) == []


def test_zero_period_does_not_wait() -> None:
    assert steps(ShutdownPeriods([(0, 0)], by_priority=True), pod("web")) == [(0, 0, {"web": 0})]


# --- kept on disk ---------------------------------------------------------------------------------------------


def test_plan_round_trips_through_json() -> None:
    periods = ShutdownPeriods([(0, 20), (CRITICAL, 10)])
    plan = ShutdownPlan(periods, [pod("web"), pod("dns", CRITICAL, None)], "logind is away")

    assert plan_from_json(plan_to_json(plan)) == plan


def test_plan_without_problem_field_has_no_problem() -> None:
    written = plan_to_json(ShutdownPlan(ShutdownPeriods([(0, 20)])))
    del written["problem"]

    assert plan_from_json(written) == ShutdownPlan(ShutdownPeriods([(0, 20)]), [])


@pytest.mark.parametrize("torn", [{}, [], {"entries": [[1]], "byPriority": False, "pods": []}])
def test_invalid_plan_raises_value_error(torn: Any) -> None:
    with pytest.raises(ValueError, match="invalid shutdown plan"):
        plan_from_json(torn)
