"""Tests for the StatefulSet controller: order, names, claims, updates and history."""

from __future__ import annotations

from typing import Any

from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import Cluster, Object, cluster, template, workload

__all__ = ["store"]
SETS, CLAIMS, REVISIONS = "apps/statefulsets", "core/persistentvolumeclaims", "apps/controllerrevisions"
DB = "default/db"


def stateful_set(replicas: int = 2, **spec: Any) -> Object:
    return {"metadata": {"name": "db"}, "spec": {"replicas": replicas, "serviceName": "db", **workload("db"), **spec}}


def names(found: Cluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in found.pods()]


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
        images = [pod["spec"]["containers"][0]["image"] for pod in found.pods()]
        during = found.read(SETS, DB)["status"]
        await found.change(SETS, DB, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
        await found.run_pods()
        after = found.read(SETS, DB)["status"]
        revisions = found.list(REVISIONS)
    assert images == ["example.com/web:1", "example.com/web:2", "example.com/web:2"]
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
