"""Tests for the disruption controller: healthy, desired and allowed pods of budgets."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import format_time
from apiserver_stub.controllers.leadership import LeaseTiming
from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, HELD_FOR
from apiserver_stub.kinds.disruption import BUDGETS
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import PODS, Cluster, cluster, deployment

__all__ = ["store"]

NAME = "disruption-controller"
COUNTS = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
KEY = "default/b"


def pods(healthy: int, others: int = 0, owner: Any = None, **status: Any) -> list[Any]:
    metadata: dict[str, Any] = {"namespace": "default", "labels": {"app": "web"}, "uid": "u"}
    if owner is not None:
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    return [
        {
            "metadata": {"name": f"p{number}", **metadata},
            "status": {"conditions": [{"type": "Ready", "status": "True" if number < healthy else "False"}], **status},
        }
        for number in range(healthy + others)
    ]


def budget(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "b", "namespace": "default", "uid": "b", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def status(store: MeteredStore) -> Any:
    return store.read(BUDGETS, KEY)["status"]


def numbers(store: MeteredStore) -> tuple[int, ...]:
    return tuple(status(store)[name] for name in COUNTS)


def put_replica_set(store: MeteredStore, replicas: int) -> dict[str, str]:
    metadata = {"name": "web", "namespace": "default", "uid": "set"}
    store.put("apps/replicasets", {"metadata": metadata, "spec": {"replicas": replicas}})
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set"}


async def settle(found: Cluster) -> None:
    await found.advance(1)


@pytest.mark.parametrize(
    ("spec", "healthy", "others", "expected"),
    [
        ({"minAvailable": 2}, 3, 0, (3, 2, 3, 1)),
        ({"minAvailable": 2}, 1, 2, (3, 2, 1, 0)),
        ({"minAvailable": 0}, 0, 0, (0, 0, 0, 0)),
        ({"minAvailable": "50%"}, 3, 0, (4, 2, 3, 1)),
        ({"minAvailable": "100%"}, 3, 0, (4, 4, 3, 0)),
        ({"maxUnavailable": 1}, 3, 0, (4, 3, 3, 0)),
        ({"maxUnavailable": 1}, 4, 1, (4, 3, 4, 1)),
        ({"maxUnavailable": 9}, 1, 1, (4, 0, 1, 1)),
        ({"maxUnavailable": "30%"}, 4, 0, (4, 2, 4, 2)),
        ({}, 3, 0, (0, 0, 3, 0)),
    ],
)
async def test_status_counts_pods_relative_to_the_replicas_of_their_owner(
    store: MeteredStore,
    clock: FakeClock,
    spec: dict[str, Any],
    healthy: int,
    others: int,
    expected: tuple[int, ...],
) -> None:
    store.put(BUDGETS, budget(**spec))
    for pod in pods(healthy, others, put_replica_set(store, 4)):
        store.put(PODS, pod)
    async with cluster(store, clock, NAME) as found:
        await settle(found)

    assert numbers(store) == expected
    assert status(store)["observedGeneration"] == 2
    assert status(store)["conditions"][0]["status"] == str(bool(expected[3]))


async def test_pods_of_a_deployment_relate_to_its_replicas(store: MeteredStore, clock: FakeClock) -> None:
    store.put(BUDGETS, budget(minAvailable="50%"))
    async with cluster(store, clock) as found:
        await found.create("deployments", deployment(replicas=3), "apps")
        await found.run_pods()
        await settle(found)

    assert numbers(store) == (3, 2, 3, 1)


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        ([{"kind": "Deployment", "controller": True}], 7),
        ([{"kind": "Other", "controller": True}, {"kind": "Deployment", "controller": True}], 7),
        ([{"kind": "Deployment", "controller": False}], 4),
        ([{"kind": "StatefulSet", "controller": True}], 4),
        (None, 4),
    ],
)
async def test_controller_of_a_replica_set_determines_the_replicas(
    store: MeteredStore, clock: FakeClock, references: Any, expected: int
) -> None:
    owner = put_replica_set(store, 4)
    found = store.read("apps/replicasets", "default/web")
    if references is not None:
        head = {"apiVersion": "apps/v1", "name": "above", "uid": "above"}
        found["metadata"]["ownerReferences"] = [{**head, **item} for item in references]
    store.put("apps/replicasets", found)
    for plural in ("deployments", "statefulsets"):
        metadata = {"name": "above", "namespace": "default", "uid": "above"}
        store.put(f"apps/{plural}", {"metadata": metadata, "spec": {"replicas": 7}})
    store.put(BUDGETS, budget(maxUnavailable=1))
    store.put(PODS, pods(1, 0, owner)[0])
    store.put(PODS, {"metadata": {"name": "unselected", "namespace": "default", "labels": {"app": "other"}}})
    async with cluster(store, clock, NAME) as controllers:
        await settle(controllers)

    assert status(store)["expectedPods"] == expected


async def test_other_conditions_of_a_budget_remain(store: MeteredStore, clock: FakeClock) -> None:
    own = {"type": "Own", "status": "True"}
    store.put(BUDGETS, {**budget(minAvailable=1), "status": {"conditions": [own]}})
    store.put(PODS, {"metadata": {"name": "unselected", "namespace": "default", "labels": {"app": "other"}}})
    async with cluster(store, clock, NAME) as found:
        await settle(found)
    assert own in status(store)["conditions"]
    assert numbers(store) == (0, 1, 0, 0)


async def test_pods_without_a_controller_are_not_expected(store: MeteredStore, clock: FakeClock) -> None:
    store.put(BUDGETS, budget(maxUnavailable=1))
    for pod in pods(2):
        store.put(PODS, pod)
    async with cluster(store, clock, NAME) as found:
        await settle(found)

    assert numbers(store) == (0, 0, 2, 0)


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [
        ("ReplicaSet", "apps/v1", 'found no controllers for pod "p0"'),
        ("Widget", "example.com/v1", 'found no controllers for pod "p0"'),
        ("Job", "batch/v1", "jobs.batch does not implement the scale subresource"),
    ],
)
async def test_unknown_scale_allows_no_disruption(
    store: MeteredStore, clock: FakeClock, kind: str, version: str, message: str
) -> None:
    store.put(BUDGETS, {**budget(maxUnavailable=1), "status": {"disruptionsAllowed": 1}})
    store.put(PODS, pods(1, 0, {"apiVersion": version, "kind": kind, "name": "x", "uid": "x"})[0])
    async with cluster(store, clock, NAME) as found:
        await settle(found)
        notes: Any = found.notes()

    assert status(store)["disruptionsAllowed"] == 0
    condition = status(store)["conditions"][0]
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "SyncFailed", message)
    assert f"Failed to calculate the number of expected pods: {message}" in notes


async def test_terminating_pods_are_not_healthy(store: MeteredStore, clock: FakeClock) -> None:
    found = pods(3)
    found[0]["metadata"]["deletionTimestamp"] = "2024-01-02T15:04:00Z"
    now = clock.wall()
    known = {"disruptedPods": {"p1": format_time(now - timedelta(seconds=1)), "gone": format_time(now)}}
    store.put(BUDGETS, {**budget(minAvailable=1), "status": known})
    for pod in found:
        store.put(PODS, pod)
    async with cluster(store, clock, NAME) as controllers:
        await settle(controllers)

    assert numbers(store) == (3, 1, 1, 0)
    assert list(status(store)["disruptedPods"]) == ["p1"]


async def test_status_is_written_only_when_it_changes(store: MeteredStore, clock: FakeClock) -> None:
    store.put(BUDGETS, budget(minAvailable=1))
    for pod in [*pods(2), {"metadata": {"name": "p", "namespace": "other", "labels": {"app": "web"}}}]:
        store.put(PODS, pod)
    async with cluster(store, clock, NAME) as found:
        await settle(found)
        assert numbers(store) == (2, 1, 2, 1)

        stored = store.collection(BUDGETS).get(KEY)
        store.put(PODS, {**pods(1)[0], "status": {**pods(1)[0]["status"], "podIP": "10.0.0.1"}})
        await settle(found)
        assert store.collection(BUDGETS).get(KEY) is stored

        store.put(PODS, {**pods(1)[0], "status": {}})
        store.remove(PODS, "default/p1")
        await settle(found)

    assert numbers(store) == (1, 1, 0, 0)


async def test_status_includes_a_remaining_evicted_pod_after_a_timeout(store: MeteredStore, clock: FakeClock) -> None:
    evicted = format_time(clock.wall())
    store.put(BUDGETS, {**budget(minAvailable=0), "status": {"disruptedPods": {"p0": evicted}}})
    store.put(PODS, pods(1)[0])
    async with cluster(store, clock, NAME) as found:
        await found.advance(60)
        assert status(store)["currentHealthy"] == 0
        await found.advance(60)
        assert status(store)["currentHealthy"] == 0
        await found.advance(1)

    assert status(store)["currentHealthy"] == 1


async def test_status_is_kept_while_a_controller_manager_holds_its_lease(store: MeteredStore, clock: FakeClock) -> None:
    spec = {"holderIdentity": "other", "renewTime": format_time(clock.wall())}
    metadata = {"name": CONTROLLER_MANAGER, "namespace": "kube-system"}
    store.put("coordination.k8s.io/leases", {"metadata": metadata, "spec": spec})
    store.put(BUDGETS, budget(minAvailable=1))
    async with cluster(store, clock, NAME) as found:
        await settle(found)
        assert "status" not in store.read(BUDGETS, KEY)

        await found.advance(HELD_FOR.total_seconds())
        await found.advance(LeaseTiming().retry_seconds)

    assert numbers(store) == (0, 1, 0, 0)
