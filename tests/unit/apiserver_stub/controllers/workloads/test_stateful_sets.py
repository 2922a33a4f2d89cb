"""Tests for the StatefulSet controller: order, names, claims, updates and history."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import PODS, Cluster, Object, cluster, template, workload

__all__ = ["store"]
pytestmark = pytest.mark.covers("apiserver_stub.controllers.workloads.revisions")
SETS, CLAIMS, REVISIONS = "apps/statefulsets", "core/persistentvolumeclaims", "apps/controllerrevisions"
DB = "default/db"
ONLY = "statefulset-controller"
OLD_IMAGE, NEW_IMAGE = "example.com/web:1", "example.com/web:2"
NEW = template("db", NEW_IMAGE)
SCALED = {"whenDeleted": "Retain", "whenScaled": "Delete"}


def stateful_set(replicas: int = 2, **spec: Any) -> Object:
    return {"metadata": {"name": "db"}, "spec": {"replicas": replicas, "serviceName": "db", **workload("db"), **spec}}


def names(found: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in found.pods()]


def images(found: Cluster) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in found.pods()]


async def test_pods_start_one_after_another(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("statefulsets", stateful_set(3), "apps")
        steps = [names(found)]
        for _ in range(3):
            await found.run_pods()
            steps.append(names(found))
        status = found.read(SETS, DB)["status"]
        pod = found.read("core/pods", "default/db-1")
    assert steps == [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"], ["db-0", "db-1", "db-2"]]
    assert (status["replicas"], status["readyReplicas"], status["currentRevision"]) == (3, 3, status["updateRevision"])
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-1", "db")
    assert pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"


async def test_parallel_policy_starts_all_pods(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("statefulsets", stateful_set(3, podManagementPolicy="Parallel"), "apps")
        assert names(found) == ["db-0", "db-1", "db-2"]


async def test_scale_down_deletes_the_highest_ordinal_and_keeps_its_claim(store: MeteredStore) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    async with cluster(store, FakeClock()) as found:
        await found.create("statefulsets", stateful_set(2, volumeClaimTemplates=[claim]), "apps")
        await found.run_pods()
        await found.run_pods()
        volumes = found.read("core/pods", "default/db-1")["spec"]["volumes"]
        await found.change(SETS, DB, replicas=1)
        claims = [item["metadata"]["name"] for item in found.list(CLAIMS)]
        assert names(found) == ["db-0"]
        notes = found.notes()
    assert claims == ["data-db-0", "data-db-1"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}} in volumes
    assert "create Claim data-db-0 Pod db-0 in StatefulSet db success" in notes
    assert "create Pod db-0 in StatefulSet db successful" in notes
    assert "delete Pod db-1 in StatefulSet db successful" in notes


async def test_update_replaces_pods_from_the_highest_ordinal_to_the_partition(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("statefulsets", stateful_set(3, podManagementPolicy="Parallel"), "apps")
        await found.run_pods()
        first = found.read(SETS, DB)["status"]["currentRevision"]

        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await found.change(SETS, DB, template=template("db", "example.com/web:2"), updateStrategy=strategy)
        for _ in range(4):
            await found.run_pods()
        during_images = images(found)
        during = found.read(SETS, DB)["status"]
        await found.change(SETS, DB, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
        await found.run_pods()
        after = found.read(SETS, DB)["status"]
        revisions = found.list(REVISIONS)
    assert during_images == [OLD_IMAGE, NEW_IMAGE, NEW_IMAGE]
    assert (during["currentRevision"], during["updatedReplicas"]) == (first, 2)
    assert after["currentRevision"] == after["updateRevision"] != first
    assert sorted(item["revision"] for item in revisions) == [1, 2]


async def test_failed_pod_is_recreated_with_its_name(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("statefulsets", stateful_set(1), "apps")
        await found.run_pods()
        uid = found.pods()[0]["metadata"]["uid"]
        await found.finish("db-0", "Failed")
        (pod,) = found.pods()
    assert pod["metadata"]["name"] == "db-0"
    assert pod["metadata"]["uid"] != uid


# Decisions of the StatefulSet controller only; pods are bound to nodes, so they terminate when the tests remove them.


def claim_template(name: str = "data", **metadata: Any) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def retention(deleted: str, scaled: str) -> Object:
    return {"whenDeleted": deleted, "whenScaled": scaled}


async def bind(found: Cluster) -> None:
    """Bind all pods, so that their deletion has a grace period."""
    for pod in found.pods():
        pod["spec"]["nodeName"] = "node"
        found.store.put(PODS, pod)
    await found.rest()


async def run_all(found: Cluster, **spec: Any) -> None:
    """Create a set and report its pods as ready, one after another."""
    await found.create("statefulsets", stateful_set(**spec), "apps")
    while any(pod["status"]["phase"] == "Pending" for pod in found.pods()):
        await found.run_pods()


def terminating(found: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in found.pods() if "deletionTimestamp" in pod["metadata"]]


def owners(found: Cluster, claim: str) -> list[str]:
    return [item["kind"] for item in found.read(CLAIMS, f"default/{claim}")["metadata"].get("ownerReferences") or ()]


async def finish_finalized(found: Cluster, name: str, phase: str) -> None:
    """Report the pod *name* as terminated; a finalizer delays its deletion."""
    pod = found.read(PODS, f"default/{name}")
    pod["metadata"]["finalizers"] = ["x.org/y"]
    found.store.put(PODS, pod)
    await found.finish(name, phase)


async def set_phase(found: Cluster, name: str, **status: Any) -> None:
    await found.set_status(PODS, f"default/{name}", **status)


NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}


async def test_ordinals_start_at_the_given_number(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=2, ordinals={"start": 5})
        started = names(found)
        await found.change(SETS, DB, ordinals={"start": 6})
        during = names(found)
        await found.run_pods()
        moved = names(found)
    assert (started, during) == (["db-5", "db-6"], ["db-5", "db-6", "db-7"])
    assert moved == ["db-6", "db-7"]


async def test_pods_have_volumes_of_templates_instead_of_those_with_their_names(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        body = template("db", volumes=[{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}])
        labels = {"labels": {"team": "a"}, "annotations": {"note": "x"}, "finalizers": ["x.org/y"]}
        await run_all(found, replicas=1, template=body, volumeClaimTemplates=[claim_template(**labels)], serviceName="")
        (pod,), (claim,) = found.pods(), found.list(CLAIMS)
    assert pod["spec"]["volumes"] == [
        {"name": "tmp", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}},
    ]
    assert "subdomain" not in pod["spec"]
    assert claim["metadata"]["labels"] == {"team": "a", "app": "db"}
    assert claim["metadata"]["annotations"] == {"note": "x"}
    assert "x.org/y" not in (claim["metadata"].get("finalizers") or ())
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}


async def test_ordered_set_waits_for_each_pod(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=2)
        await bind(found)
        for change in ({"phase": "Pending"}, NOT_READY):
            before = found.read(PODS, "default/db-0")["status"]
            await set_phase(found, "db-0", **change)
            assert found.read(SETS, DB)["status"]["readyReplicas"] == 1, change
            await found.change(SETS, DB, replicas=3)
            assert names(found) == ["db-0", "db-1"], change
            await found.change(SETS, DB, replicas=1)
            assert terminating(found) == [], change
            await found.change(SETS, DB, replicas=2)
            await set_phase(found, "db-0", **before)


async def test_ordered_set_waits_for_terminating_pods(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=3)
        await bind(found)
        await found.change(SETS, DB, replicas=1)
        first = terminating(found)
        await found.delete(PODS, "default/db-2")
        second = terminating(found)
        await found.change(SETS, DB, replicas=3)
        during = names(found)
        await found.delete(PODS, "default/db-1")
        after = names(found)
    assert (first, second) == (["db-2"], ["db-1"])
    assert during == ["db-0", "db-1"]
    assert after == ["db-0", "db-1"]


async def test_parallel_set_does_not_wait_for_pods(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await found.create("statefulsets", stateful_set(3, podManagementPolicy="Parallel"), "apps")
        await bind(found)
        await found.delete(PODS, "default/db-1")
        recreated = names(found)
        await found.change(SETS, DB, replicas=1)
        scaled_down = terminating(found)
        await found.change(SETS, DB, replicas=5)
        scaled_up = names(found)
    assert recreated == ["db-0", "db-1", "db-2"]
    assert scaled_down in (["db-2"], ["db-1", "db-2"])
    assert "db-4" in scaled_up


async def test_pods_must_be_ready_for_a_time(store: MeteredStore) -> None:
    for policy, started in (("OrderedReady", ["db-0"]), ("Parallel", ["db-0", "db-1"])):
        clock, memory = FakeClock(), MeteredStore()
        async with cluster(memory, clock, ONLY) as found:
            spec = stateful_set(2, podManagementPolicy=policy, minReadySeconds=10)
            await found.create("statefulsets", spec, "apps")
            await found.run_pods()
            await found.advance(9)
            before = names(found), found.read(SETS, DB)["status"]
            await found.advance(5)
            after = found.read(SETS, DB)["status"]
            assert names(found) == ["db-0", "db-1"], policy
        assert before[0] == started, policy
        assert (before[1]["readyReplicas"], before[1]["availableReplicas"]) == (len(started), 0), policy
        assert after["availableReplicas"] == len(started), policy


async def test_terminated_pods_are_recreated_in_the_order_of_the_policy(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=2)
        for phase in ("Failed", "Succeeded"):
            await finish_finalized(found, "db-0", phase)
            deleted = terminating(found)
            await found.change(SETS, DB, replicas=3)
            assert (deleted, names(found)) == (["db-0"], ["db-0", "db-1"]), phase
            await found.change(SETS, DB, replicas=2)
            await found.delete(PODS, "default/db-0")
            await found.run_pods()
        events = [(item["type"], item["reason"], item["note"]) for item in found.list("core/events")]
        await found.delete(SETS, DB)
        for pod in found.pods():
            await found.delete(PODS, f"default/{pod['metadata']['name']}")
        await run_all(found, replicas=2, podManagementPolicy="Parallel")
        await finish_finalized(found, "db-0", "Failed")
        await found.change(SETS, DB, replicas=3)
        assert names(found) == ["db-0", "db-1", "db-2"]
    text = "StatefulSet default/db is recreating {} Pod db-0"
    assert [event for event in events if event[1].startswith("Recreating")] == [
        ("Warning", "RecreatingFailedPod", text.format("failed")),
        ("Normal", "RecreatingTerminatedPod", text.format("terminated")),
    ]


async def test_update_waits_for_replaced_pods(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=3)
        await bind(found)
        await found.change(SETS, DB, template=NEW)
        first = terminating(found)
        await found.delete(PODS, "default/db-2")
        waiting = terminating(found)
        await found.run_pods()
        second = terminating(found)
    assert (first, waiting, second) == (["db-2"], [], ["db-1"])


async def test_revision_is_current_when_all_updated_pods_are_ready(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=1)
        await found.change(SETS, DB, template=NEW)
        waiting = found.read(SETS, DB)["status"]
        await found.run_pods()
        done = found.read(SETS, DB)["status"]
    assert (waiting["updatedReplicas"], waiting.get("currentReplicas", 0)) == (1, 0)
    assert waiting["currentRevision"] != waiting["updateRevision"]
    assert done["currentRevision"] == waiting["updateRevision"]


async def test_update_waits_until_replaced_pods_are_available(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock, ONLY) as found:
        await found.create("statefulsets", stateful_set(2, podManagementPolicy="Parallel", minReadySeconds=10), "apps")
        await found.run_pods()
        await found.advance(12)
        await found.change(SETS, DB, template=NEW)
        await found.run_pods()
        await found.advance(5)
        waiting = images(found)
        await found.advance(12)
        assert images(found) == [NEW_IMAGE, NEW_IMAGE]
    assert waiting == [OLD_IMAGE, NEW_IMAGE]


async def test_update_on_delete_replaces_only_deleted_pods(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=3, updateStrategy={"type": "OnDelete"})
        await found.change(SETS, DB, template=NEW)
        before = terminating(found), images(found)
        await found.delete(PODS, "default/db-0")
        after = images(found)
        await found.run_pods()
        status = found.read(SETS, DB)["status"]
    assert before == ([], [OLD_IMAGE, OLD_IMAGE, OLD_IMAGE])
    assert after == [NEW_IMAGE, OLD_IMAGE, OLD_IMAGE]
    assert status["currentRevision"] != status["updateRevision"]
    assert (status["currentReplicas"], status["updatedReplicas"]) == (2, 1)


async def test_broken_pod_does_not_block_the_update_of_a_parallel_set(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=2, podManagementPolicy="Parallel")
        await bind(found)
        await set_phase(found, "db-0", **NOT_READY)
        await found.change(SETS, DB, template=NEW)
        first = terminating(found)
        await found.delete(PODS, "default/db-1")
        waiting = terminating(found)
        await found.run_pods()
        second = terminating(found)
    assert (first, waiting, second) == (["db-1"], [], ["db-0"])


async def test_update_replaces_as_many_pods_as_may_be_unavailable(store: MeteredStore) -> None:
    for limit, broken, expected in (
        (2, [], ["db-2", "db-3"]),
        ("50%", [], ["db-2", "db-3"]),
        ("1%", [], ["db-3"]),
        (2, ["db-3"], ["db-2", "db-3"]),
        (2, ["db-0"], ["db-3"]),
        (1, ["db-0"], []),
        (1, ["db-3"], ["db-3"]),
        (4, [], ["db-1", "db-2", "db-3"]),
    ):
        memory = MeteredStore()
        async with cluster(memory, FakeClock(), ONLY) as found:
            await run_all(found, replicas=4, podManagementPolicy="Parallel")
            await bind(found)
            for name in broken:
                await set_phase(found, name, **NOT_READY)
            rolling = {"partition": 1, "maxUnavailable": limit}
            strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
            await found.change(SETS, DB, template=NEW, updateStrategy=strategy)
            assert terminating(found) == expected, (limit, broken)


async def test_missing_pods_below_the_partition_have_the_old_template(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=3, ordinals={"start": 1})
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await found.change(SETS, DB, template=NEW, updateStrategy=strategy)
        for _ in range(3):
            await found.run_pods()
        partitioned = images(found)
        await found.delete(PODS, "default/db-1")
        recreated = images(found)
    assert partitioned == recreated == [OLD_IMAGE, NEW_IMAGE, NEW_IMAGE]


async def test_missing_pods_have_the_old_template_until_they_are_updated(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=3)
        await bind(found)
        await found.change(SETS, DB, template=NEW, updateStrategy={"type": "RollingUpdate"})
        await found.delete(PODS, "default/db-2")
        updated = images(found)
        await found.delete(PODS, "default/db-0")
        assert images(found) == [OLD_IMAGE, OLD_IMAGE, NEW_IMAGE]
    assert updated == [OLD_IMAGE, OLD_IMAGE, NEW_IMAGE]


async def test_missing_claims_of_pending_pods_are_created(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await found.create("statefulsets", stateful_set(1, volumeClaimTemplates=[claim_template()]), "apps")
        await found.delete(CLAIMS, "default/data-db-0")
        await found.change(SETS, DB, minReadySeconds=1)
        created = [item["metadata"]["name"] for item in found.list(CLAIMS)]
        await found.run_pods()
        await found.delete(CLAIMS, "default/data-db-0")
        await found.change(SETS, DB, minReadySeconds=0)
        assert found.list(CLAIMS) == []
    assert created == ["data-db-0"]


async def test_pod_is_not_created_while_its_claim_is_deleted(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        metadata = {"name": "data-db-0", "namespace": "default", "uid": "c", "finalizers": ["x.org/y"]}
        store.put(CLAIMS, {"metadata": {**metadata, "deletionTimestamp": "2024-01-01T00:00:00Z"}, "spec": {}})
        await found.create("statefulsets", stateful_set(1, volumeClaimTemplates=[claim_template()]), "apps")
        waiting, notes = names(found), found.notes()
        await found.delete(CLAIMS, "default/data-db-0")
        await found.advance(60)
        assert names(found) == ["db-0"]
    assert waiting == []
    assert "create Pod db-0 in StatefulSet db failed error: pvc data-db-0 is being deleted" in notes


async def test_pod_is_not_created_with_the_claim_of_its_predecessor(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        spec = {"volumeClaimTemplates": [claim_template()], "persistentVolumeClaimRetentionPolicy": SCALED}
        await run_all(found, replicas=2, **spec)
        await found.change(SETS, DB, replicas=1)
        await found.change(SETS, DB, replicas=2)
        waiting = names(found)
        await found.delete(CLAIMS, "default/data-db-1")
        await found.advance(2)
        assert names(found) == ["db-0", "db-1"]
        assert owners(found, "data-db-1") == []
    assert waiting == ["db-0"]


async def test_claims_are_owned_by_the_policy(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=2, volumeClaimTemplates=[claim_template(), claim_template("logs")])
        await bind(found)
        created = owners(found, "data-db-0")
        found_owners = []
        for policy in (retention("Delete", "Retain"), retention("Retain", "Delete"), retention("Delete", "Delete")):
            await found.change(SETS, DB, persistentVolumeClaimRetentionPolicy=policy)
            found_owners.append((owners(found, "data-db-0"), owners(found, "logs-db-1")))
        await found.change(SETS, DB, replicas=1)
        scaled_down = owners(found, "data-db-0"), owners(found, "data-db-1"), owners(found, "logs-db-1")
        await found.change(SETS, DB, persistentVolumeClaimRetentionPolicy=retention("Retain", "Retain"))
        assert owners(found, "data-db-0") == []
    assert created == []
    assert found_owners == [(["StatefulSet"], ["StatefulSet"]), ([], []), (["StatefulSet"], ["StatefulSet"])]
    assert scaled_down == (["StatefulSet"], ["Pod"], ["Pod"])


async def test_new_claims_are_owned_by_the_set_if_they_are_deleted_with_it(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        policy = retention("Delete", "Retain")
        spec = stateful_set(1, volumeClaimTemplates=[claim_template()], persistentVolumeClaimRetentionPolicy=policy)
        uid = (await found.create("statefulsets", spec, "apps"))["metadata"]["uid"]
        (reference,) = found.read(CLAIMS, "default/data-db-0")["metadata"]["ownerReferences"]
    assert reference == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": uid}


async def test_other_owners_of_claims_are_kept(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=1, volumeClaimTemplates=[claim_template()])
        claim = found.read(CLAIMS, "default/data-db-0")
        claim["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}]
        store.put(CLAIMS, claim)
        for policy, expected in (
            (retention("Delete", "Retain"), ["ConfigMap", "StatefulSet"]),
            (retention("Retain", "Retain"), ["ConfigMap"]),
        ):
            await found.change(SETS, DB, persistentVolumeClaimRetentionPolicy=policy)
            assert owners(found, "data-db-0") == expected


async def test_changed_identity_labels_are_restored(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=1)
        pod = found.read(PODS, "default/db-0")
        expected = pod["metadata"]["labels"]
        pod["metadata"]["labels"] = {"app": "db", "controller-revision-hash": expected["controller-revision-hash"]}
        store.put(PODS, pod)
        await found.rest()
        restored = found.read(PODS, "default/db-0")["metadata"]["labels"]
        notes = found.notes()
    assert restored == expected
    assert notes.count("update Pod db-0 in StatefulSet db successful") == 1


async def test_pods_without_the_name_of_an_ordinal_are_not_adopted(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        for name in ("db-x", "db-01", "other-0", "db-0", "db-7"):
            pod = {"metadata": {"name": name, "labels": {"app": "db"}}, "spec": template("db")["spec"]}
            await found.create("pods", pod)
        await run_all(found, replicas=1, updateStrategy={"type": "OnDelete"})
        adopted = [pod["metadata"]["name"] for pod in found.pods() if pod["metadata"].get("ownerReferences")]
        assert found.read(SETS, DB)["status"]["replicas"] == 1
    assert adopted == ["db-0"]
    assert "db-7" not in names(found)  # It was adopted and scaled down.


async def test_deleted_set_only_reports_its_status(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=2)
        owner = found.read(SETS, DB)
        owner["metadata"] |= {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}
        store.put(SETS, owner)
        await found.delete(PODS, "default/db-1")
        assert names(found) == ["db-0"]
        assert found.read(SETS, DB)["status"]["replicas"] == 1


async def test_rejected_pods_and_claims_are_reported(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        body = template("db")
        body["spec"]["containers"][0]["volumeMounts"] = [{"name": "x", "mountPath": "/x"}]
        owner = stateful_set(1, template=body)
        metadata = {"name": "db", "namespace": "default", "uid": "u", "generation": 1}
        store.put(SETS, {"kind": "StatefulSet", "apiVersion": "apps/v1", **owner, "metadata": metadata})
        await found.rest()
        status, pod_notes = found.read(SETS, DB)["status"], found.notes()
        broken = {"metadata": {"name": "data"}, "spec": {"accessModes": ["x"]}}
        await found.change(SETS, DB, template=template("db"), volumeClaimTemplates=[broken])
        await found.advance(60)
        notes = found.notes()
    assert status["replicas"] == 0
    assert status["observedGeneration"] == 1
    (note,) = pod_notes
    assert note.startswith("create Pod db-0 in StatefulSet db failed error: ")
    assert any(
        note.startswith("create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: ") for note in notes
    )


async def test_pod_of_another_owner_blocks_its_name_without_an_event(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await found.create("pods", {"metadata": {"name": "db-0"}, "spec": template("db")["spec"]})
        await found.create("statefulsets", stateful_set(1), "apps")
        assert found.notes() == []
        assert found.read(SETS, DB)["status"]["replicas"] == 0


async def test_old_revisions_are_deleted_beyond_the_history_limit(store: MeteredStore) -> None:
    for limit, expected in ((1, [3, 4]), (0, [4]), (None, [1, 2, 3, 4])):
        memory = MeteredStore()
        async with cluster(memory, FakeClock(), ONLY) as found:
            await run_all(found, replicas=1)
            await found.change(SETS, DB, revisionHistoryLimit=limit)
            for number in range(2, 5):
                await found.change(SETS, DB, template=template("db", f"example.com/web:{number}"))
                await found.run_pods()
            assert sorted(item["revision"] for item in found.list(REVISIONS)) == expected, limit


async def test_rollback_reuses_the_revision_with_a_higher_number(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await run_all(found, replicas=1)
        (first,) = found.list(REVISIONS)
        for body in (NEW, template("db")):
            await found.change(SETS, DB, template=body)
            await found.run_pods()
        numbers = {item["metadata"]["name"]: item["revision"] for item in found.list(REVISIONS)}
        status = found.read(SETS, DB)["status"]
    assert len(numbers) == 2
    assert numbers[first["metadata"]["name"]] == 3
    assert status["currentRevision"] == status["updateRevision"] == first["metadata"]["name"]


@pytest.mark.parametrize("annotations", [{"a": "b"}, {}])
async def test_revision_has_the_annotations_of_its_owner(store: MeteredStore, annotations: Object) -> None:
    created = stateful_set(1)
    created["metadata"]["annotations"] = annotations
    async with cluster(store, FakeClock()) as found:
        await found.create("statefulsets", created, "apps")
        (revision,) = found.list(REVISIONS)

    assert (revision["metadata"].get("annotations") or {}) == annotations
