"""Tests for the disruption controller: healthy, desired and allowed pods of budgets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import format_time
from apiserver_stub.controllers.disruption import (
    DELETION_TIMEOUT,
    DisruptionBudgets,
    counted,
    run_disruption_controller,
)
from apiserver_stub.kinds.disruption import BUDGETS
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, rest, running, store

__all__ = ["store"]

NOW = datetime(2024, 1, 2, 15, 4, 5, tzinfo=UTC)
COUNTS = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")


def pods(healthy: int, others: int = 0, **status: Any) -> list[Any]:
    return [
        {
            "metadata": {"name": f"p{number}", "namespace": "n", "labels": {"app": "a"}},
            "status": {"conditions": [{"type": "Ready", "status": "True" if number < healthy else "False"}], **status},
        }
        for number in range(healthy + others)
    ]


def budget(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "b", "namespace": "n", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec},
    }


def numbers(found: dict[str, Any]) -> tuple[int, ...]:
    return tuple(found[name] for name in COUNTS)


@pytest.mark.parametrize(
    ("spec", "healthy", "others", "expected"),
    [
        ({"minAvailable": 2}, 3, 0, (3, 2, 3, 1)),
        ({"minAvailable": 2}, 1, 2, (3, 2, 1, 0)),
        ({"minAvailable": 0}, 0, 0, (0, 0, 0, 0)),
        ({"minAvailable": "50%"}, 3, 0, (3, 2, 3, 1)),
        ({"minAvailable": "100%"}, 3, 0, (3, 3, 3, 0)),
        ({"maxUnavailable": 1}, 3, 0, (3, 2, 3, 1)),
        ({"maxUnavailable": 1}, 2, 1, (3, 2, 2, 0)),
        ({"maxUnavailable": 9}, 1, 1, (2, 0, 1, 1)),
        ({"maxUnavailable": "30%"}, 4, 0, (4, 2, 4, 2)),
        ({}, 3, 0, (0, 0, 3, 0)),
    ],
)
def test_status_counts_pods_and_allowed_disruptions(
    spec: dict[str, Any], healthy: int, others: int, expected: tuple[int, ...]
) -> None:
    status = counted(budget(**spec), pods(healthy, others), NOW)

    assert numbers(status) == expected
    assert status["observedGeneration"] == 2
    assert status["conditions"][0]["status"] == str(bool(expected[3]))


def test_finished_pods_are_not_expected() -> None:
    found = pods(2) + pods(0, 1, phase="Succeeded")
    assert numbers(counted(budget(maxUnavailable=1), found, NOW)) == (2, 1, 2, 1)


def test_terminating_pods_are_not_healthy() -> None:
    found = pods(3)
    found[0]["metadata"]["deletionTimestamp"] = "2024-01-02T15:04:00Z"
    known = {"disruptedPods": {"p1": format_time(NOW - timedelta(seconds=1)), "gone": format_time(NOW)}}

    status = counted({**budget(minAvailable=1), "status": known}, found, NOW)

    assert numbers(status) == (3, 1, 1, 0)
    assert list(status["disruptedPods"]) == ["p1"]


def test_evicted_pod_that_remains_is_counted_after_a_timeout() -> None:
    known = {"disruptedPods": {"p0": format_time(NOW - DELETION_TIMEOUT - timedelta(seconds=1))}}

    status = counted({**budget(minAvailable=1), "status": known}, pods(1), NOW)

    assert status["currentHealthy"] == 1
    assert "disruptedPods" not in status


async def kept(store: MeteredStore) -> None:
    """Run the controller until it is idle."""
    async with running(store, run_disruption_controller(store)):
        await rest(store)


async def test_status_is_written_when_it_changes(store: MeteredStore) -> None:
    store.put(BUDGETS, budget(minAvailable=1))
    for pod in [*pods(2), {"metadata": {"name": "p", "namespace": "other", "labels": {"app": "a"}}}]:
        store.put("core/pods", pod)

    await kept(store)
    assert numbers(store.read(BUDGETS, "n/b")["status"]) == (2, 1, 2, 1)

    writes = store.writes
    await kept(store)
    assert store.writes == writes


async def test_status_follows_the_pods(store: MeteredStore, clock: FakeClock) -> None:
    store.put(BUDGETS, budget(minAvailable=1))
    async with running(store, DisruptionBudgets(store, clock).run()):
        await clock.advance(1)
        assert numbers(store.read(BUDGETS, "n/b")["status"]) == (0, 1, 0, 0)

        for pod in pods(3):
            store.put("core/pods", pod)
        await clock.advance(1)
        assert numbers(store.read(BUDGETS, "n/b")["status"]) == (3, 1, 3, 2)

        store.put("core/pods", {**pods(3)[0], "status": {}})
        store.remove("core/pods", "n/p1")
        await clock.advance(1)

    assert numbers(store.read(BUDGETS, "n/b")["status"]) == (2, 1, 1, 0)


async def test_status_includes_a_remaining_evicted_pod_after_a_timeout(store: MeteredStore, clock: FakeClock) -> None:
    evicted = format_time(clock.wall())
    store.put(BUDGETS, {**budget(minAvailable=0), "status": {"disruptedPods": {"p0": evicted}}})
    store.put("core/pods", pods(1)[0])
    async with running(store, DisruptionBudgets(store, clock).run()):
        await clock.advance(60)
        assert store.read(BUDGETS, "n/b")["status"]["currentHealthy"] == 0
        await clock.advance(70)

    assert store.read(BUDGETS, "n/b")["status"]["currentHealthy"] == 1


async def test_status_written_by_a_controller_manager_is_kept(store: MeteredStore) -> None:
    found = budget(minAvailable=1)
    found["metadata"]["managedFields"] = [{"manager": "kube-controller-manager", "subresource": "status"}]
    store.put(BUDGETS, found)

    await kept(store)

    assert "status" not in store.read(BUDGETS, "n/b")
