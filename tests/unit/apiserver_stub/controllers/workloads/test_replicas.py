"""Tests for ReplicaSets and ReplicationControllers: their pods and status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.views import (
    Condition,
    ContainerStatus,
    Metadata,
    PodSpec,
    PodStatus,
    PodView,
)
from apiserver_stub.controllers.workloads.replicas import replica_status, surplus_pods
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import PODS, Cluster, cluster, workload

__all__ = ["store"]
pytestmark = pytest.mark.covers(
    *(f"apiserver_stub.controllers.workloads.{name}" for name in ("owners", "owner_controller", "pod_writer")),
    "apiserver_stub.controllers.views",
    "apiserver_stub.controllers.object_index",
)
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
COST = "controller.kubernetes.io/pod-deletion-cost"
EARLY, LATE = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"


def pod(
    name: str,
    node: str = "n",
    phase: str = "Running",
    ready: str | None = EARLY,
    restarts: int = 0,
    created: str | None = EARLY,
    **annotations: str,
) -> PodView:
    """Return a pod that is ready since *ready*; not ready if this is ``None``."""
    conditions = (Condition("Ready", "True", None, ready or None),) if ready is not None else ()
    statuses = (ContainerStatus(0), ContainerStatus(restarts))
    return PodView(
        Metadata(name, "default", labels={"app": "web"}, annotations=annotations, created_at=created),
        PodSpec(node),
        PodStatus(phase, conditions=conditions, container_statuses=statuses),
    )


def test_surplus_pods_are_the_least_useful_ones() -> None:
    for title, lost, kept in (
        ("no node", pod("l", "", "Running"), pod("k", "n", "Pending", None)),
        ("pending", pod("l", phase="Pending"), pod("k", phase="Unknown")),
        ("unknown", pod("l", phase="Unknown"), pod("k", phase="Running", ready=None)),
        ("no phase", pod("l", phase=""), pod("k", phase="Unknown")),
        ("not ready", pod("l", ready=None, **{COST: "9"}), pod("k", **{COST: "1"})),
        ("low cost of deletion", pod("l", restarts=0, **{COST: "-1"}), pod("k", restarts=9)),
        ("invalid cost", pod("l", **{COST: "x"}), pod("k", **{COST: "1"})),
        ("ready for a shorter time", pod("l", ready=LATE), pod("k", ready=EARLY, restarts=9)),
        ("more restarts", pod("l", restarts=2, created=EARLY), pod("k", restarts=1, created=LATE)),
        ("younger", pod("l", created=LATE), pod("k", created=EARLY)),
        ("ready at an unspecified time", pod("l", ready=LATE), pod("k", ready="", created=LATE)),
    ):
        for pods in ([lost, kept], [kept, lost]):
            assert surplus_pods(pods, [], 1, COST) == [lost], title
    crowded, single = pod("c", "full", ready=EARLY), pod("s", "n", ready=LATE)
    related = [crowded, single, pod("x", "full")]
    assert surplus_pods([single, crowded], related, 1, COST) == [crowded]
    assert surplus_pods([single, crowded], related, 2, COST) == [crowded, single]


def test_status_counts_pods_by_labels_readiness_and_availability() -> None:
    def owner(**spec: Any) -> Object:
        template = {"metadata": {"labels": {"app": "web"}}}
        return {
            "metadata": {},
            "spec": {"replicas": 2, "template": template, **spec},
            "status": {"observedGeneration": 3},
        }

    pods = [pod("a"), pod("b", ready=None), pod("c", ready="2026-01-01T11:59:30Z")]
    assert replica_status(owner(), pods, None, NOW) == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "observedGeneration": 3,
    }
    assert replica_status(owner(minReadySeconds=31), pods, None, NOW)["availableReplicas"] == 1
    assert replica_status(owner(minReadySeconds=30), pods, None, NOW)["availableReplicas"] == 2
    other = {"metadata": {"labels": {"app": "db"}}}
    assert "fullyLabeledReplicas" not in replica_status(owner(template=other), pods, None, NOW)
    assert replica_status({"metadata": {}, "spec": {}}, [], None, NOW) == {"replicas": 0}
    unlabeled = PodView(Metadata("x"))
    assert replica_status({"metadata": {}, "spec": {}}, [unlabeled], None, NOW)["fullyLabeledReplicas"] == 1
    assert "fullyLabeledReplicas" not in replica_status(owner(), [unlabeled], None, NOW)


def test_failure_to_create_or_delete_pods_is_a_condition() -> None:
    error = ApiError(403, "Forbidden", "exceeded quota")
    for desired, count, reason in ((2, 1, "FailedCreate"), (1, 2, "FailedDelete"), (None, 1, "FailedDelete")):
        owner = {"metadata": {}, "spec": {"replicas": desired}}
        (found,) = replica_status(owner, [pod("a")] * count, error, NOW)["conditions"]
        assert (found["reason"], found["message"]) == (reason, "exceeded quota"), desired
    known = [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "first"}, {"type": "X"}]
    owner = {"metadata": {}, "spec": {"replicas": 2}, "status": {"conditions": known}}
    assert replica_status(owner, [], error, NOW)["conditions"] == known
    assert replica_status(owner, [], None, NOW)["conditions"] == [{"type": "X"}]


SETS = "apps/replicasets"
WEB = "default/web"


def replica_set(name: str = "web", replicas: int = 2, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, **workload(name), **spec}}


def active(found: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in found.pods() if "deletionTimestamp" not in pod["metadata"]]


def put_pod(store: MeteredStore, name: str, *owners: Object, node: str = "n", **metadata: Any) -> None:
    fields = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}, **metadata}
    if owners:
        fields["ownerReferences"] = list(owners)
    spec, status = {"nodeName": node, "containers": []}, {"phase": "Running"}
    store.put(PODS, {"kind": "Pod", "metadata": fields, "spec": spec, "status": status})


def reference(kind: str, name: str, *, controller: bool = True) -> Object:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": controller}


def owners(found: Cluster, name: str) -> list[tuple[str, bool]]:
    references = found.read(PODS, f"default/{name}")["metadata"].get("ownerReferences") or ()
    return [(item["name"], item["controller"]) for item in references]


@pytest.mark.parametrize(
    ("plural", "group", "collection"),
    [("replicasets", "apps", SETS), ("replicationcontrollers", "", "core/replicationcontrollers")],
)
async def test_number_of_pods_follows_the_replicas(
    store: MeteredStore, plural: str, group: str, collection: str
) -> None:
    obj = replica_set()
    if not group:
        obj["spec"]["selector"] = {"app": "web"}
    async with cluster(store, FakeClock(), "replicaset-controller", "replicationcontroller-controller") as found:
        await found.create(plural, obj, group)
        first = active(found)
        await found.delete(PODS, f"default/{first[0]}")
        second = active(found)
        await found.change(collection, WEB, replicas=1)
        third = active(found)
        status = found.read(collection, WEB)["status"]
    assert [len(names) for names in (first, second, third)] == [2, 2, 1]
    assert first[0] not in second
    assert (status["replicas"], status["observedGeneration"]) == (1, 2)


async def test_replication_controller_without_selector_has_no_pods(store: MeteredStore) -> None:
    metadata = {"name": "web", "namespace": "default", "uid": "web"}
    store.put("core/replicationcontrollers", {"metadata": metadata, "spec": {"replicas": 1}})
    async with cluster(store, FakeClock(), "replicationcontroller-controller") as found:
        await found.rest()
        assert found.pods() == []


async def test_pods_are_available_after_their_minimum_time_ready(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "replicaset-controller") as found:
        await found.create("replicasets", replica_set(minReadySeconds=10), "apps")
        await found.run_pods()
        first = found.read(SETS, WEB)["status"]
        await found.advance(9)
        second = found.read(SETS, WEB)["status"]
        await found.advance(1)
        third = found.read(SETS, WEB)["status"]
        writes = store.writes
        await found.advance(60)
        assert store.writes == writes
    assert [status.get("availableReplicas") for status in (first, second, third)] == [None, None, 2]
    assert first["readyReplicas"] == 2


async def test_unchanged_status_is_not_written(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "replicaset-controller") as found:
        await found.create("replicasets", replica_set(replicas=1), "apps")
        (pod,) = found.pods()
        writes = store.writes
        pod["metadata"]["annotations"] = {"a": "b"}
        store.put(PODS, pod)
        await found.rest()
        assert store.writes == writes + 1


@pytest.mark.parametrize("cause", ["Other", "NamespaceTerminating", None])
async def test_rejected_pods_are_reported_and_created_later(store: MeteredStore, cause: str | None) -> None:
    def reject(collection: str, key: str) -> None:
        if collection == PODS:
            raise ApiError(403, "Forbidden", "rejected", {"causes": [{"reason": cause}]} if cause else {})

    async with cluster(store, FakeClock(), "replicaset-controller") as found:
        store.before_update = reject
        await found.create("replicasets", replica_set(), "apps")
        status, notes = found.read(SETS, WEB)["status"], found.notes()
        store.before_update = None
        await found.advance(120)
        later = len(active(found))
        assert "conditions" not in found.read(SETS, WEB)["status"]
    reported = cause != "NamespaceTerminating"
    assert ("Error creating: rejected" in notes) is reported
    assert [item["reason"] for item in status.get("conditions", [])] == (["FailedCreate"] if reported else [])
    assert later == (2 if reported else 0)


async def test_orphans_are_adopted_and_others_released(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "replicaset-controller") as found:
        owner = await found.create("replicasets", replica_set(replicas=1), "apps")
        uid = owner["metadata"]["uid"]
        (own,) = active(found)
        mine = {**reference("ReplicaSet", "web", controller=False), "uid": uid}
        put_pod(store, "orphan", reference("Node", "other", controller=False), mine)
        put_pod(store, "of-another", reference("ReplicaSet", "other"))
        put_pod(store, "deleted", deletionTimestamp="2026-01-01T00:00:00Z")
        put_pod(store, "unlabeled", labels={"app": "db"})
        await found.rest()
        remaining = active(found)
        await found.change(SETS, WEB, replicas=2)
        released = found.read(PODS, f"default/{own if own in remaining else 'orphan'}")
        released["metadata"]["labels"] = {"app": "debug"}
        released["metadata"]["ownerReferences"].insert(0, reference("Node", "kept", controller=False))
        store.put(PODS, released)
        await found.rest()
        left = [owners(found, name) for name in ("of-another", "deleted", "unlabeled", released["metadata"]["name"])]
        assert len(active(found)) == 5
    assert len(remaining) == 3
    assert left[:3] == [[("other", True)], [], []]
    assert ("kept", False) in left[3]
    assert not any(controller for _, controller in left[3])


async def test_adopted_pod_retains_its_other_owners(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "replicaset-controller") as found:
        put_pod(store, "p", reference("Node", "n", controller=False), reference("ReplicaSet", "u", controller=False))
        metadata = {"name": "web", "namespace": "default", "uid": "u"}
        spec = replica_set(replicas=1)["spec"]
        store.put(SETS, {"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": metadata, "spec": spec})
        await found.rest()
        assert owners(found, "p") == [("n", False), ("web", True)]
        assert active(found) == ["p"]


@pytest.mark.parametrize("change", ["owned", "deleted", "removed"])
async def test_pod_that_changes_during_its_adoption_is_not_adopted(store: MeteredStore, change: str) -> None:
    def interrupt(collection: str, key: str) -> None:
        if collection == PODS:
            store.before_update = None
            if change == "owned":
                put_pod(store, "p", reference("ReplicaSet", "other"))
            elif change == "deleted":
                put_pod(store, "p", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])
            else:
                store.remove(PODS, "default/p")

    put_pod(store, "p")
    store.before_update = interrupt
    async with cluster(store, FakeClock(), "replicaset-controller") as found:
        await found.create("replicasets", replica_set(replicas=1), "apps")
        created = [name for name in active(found) if name != "p"]
        assert len(created) == 1
        if change != "removed":
            assert owners(found, "p") == ([("other", True)] if change == "owned" else [])


async def test_pods_on_nodes_with_others_of_the_deployment_are_deleted_first(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "replicaset-controller") as found:
        for name in ("web", "old"):
            obj = replica_set(name, 0)
            obj["metadata"] |= {"namespace": "default", "uid": name, "ownerReferences": [reference("Deployment", "d")]}
            obj["spec"]["replicas"] = 2 if name == "web" else 1
            store.put(SETS, {"kind": "ReplicaSet", "apiVersion": "apps/v1", **obj})
        old = {"app": "old"}
        put_pod(store, "a", reference("ReplicaSet", "web"), node="crowded", creationTimestamp=EARLY)
        put_pod(store, "b", reference("ReplicaSet", "web"), node="n", creationTimestamp=LATE)
        put_pod(store, "c", reference("ReplicaSet", "old"), node="crowded", labels=old)
        await found.rest()
        await found.change(SETS, WEB, replicas=1)
        assert active(found) == ["b", "c"]
