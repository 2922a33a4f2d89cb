"""Tests for the Deployment and ReplicaSet controllers: rollouts, sizes, history, adoption and status."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import (
    DEPLOYMENTS,
    SETS,
    Cluster,
    cluster,
    deployment,
    template,
    workload,
)

__all__ = ["store"]
WEB = "default/web"
NEW = {"template": template("web", "example.com/web:2")}


def sizes(found: Cluster) -> list[int]:
    """Return the sizes of the ReplicaSets, by revision."""
    sets = found.list(SETS)
    sets.sort(key=lambda item: int(item["metadata"]["annotations"]["deployment.kubernetes.io/revision"]))
    return [item["spec"].get("replicas", 0) for item in sets]


def condition(obj: Object, kind: str) -> tuple[str, str]:
    found = next(item for item in obj["status"]["conditions"] if item["type"] == kind)
    return found["status"], found["reason"]


async def test_deployment_creates_pods_and_reports_availability(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("deployments", deployment(), "apps")
        waiting = found.read(DEPLOYMENTS, WEB)
        await found.run_pods()
        running = found.read(DEPLOYMENTS, WEB)

        (owner,) = found.list(SETS)
        pods = found.pods(f"{owner['metadata']['name']}-")
    assert len(pods) == 3
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == {owner["metadata"]["uid"]}
    assert condition(waiting, "Available") == ("False", "MinimumReplicasUnavailable")
    assert waiting["status"]["unavailableReplicas"] == 3
    assert condition(running, "Available") == ("True", "MinimumReplicasAvailable")
    assert condition(running, "Progressing") == ("True", "NewReplicaSetAvailable")
    assert running["status"] | {"conditions": []} == {
        "observedGeneration": 1,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "conditions": [],
    }


async def test_rollout_keeps_the_limits_of_the_strategy(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("deployments", deployment(replicas=4), "apps")
        await found.run_pods()
        seen = []

        await found.change(DEPLOYMENTS, WEB, **NEW)
        for _ in range(8):
            seen.append(tuple(sizes(found)))
            await found.run_pods()
        finished = found.read(DEPLOYMENTS, WEB)

    assert seen[0] == (3, 2)  # 25 % of 4 are one surplus pod and one unavailable pod.
    assert all(sum(step) <= 5 for step in seen)
    assert seen[-1] == (0, 4)
    assert condition(finished, "Progressing") == ("True", "NewReplicaSetAvailable")
    assert finished["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"


async def test_rollback_reuses_the_replica_set_with_a_new_revision(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("deployments", deployment(replicas=1), "apps")
        await found.run_pods()
        first = found.list(SETS)[0]["metadata"]["name"]
        await found.change(DEPLOYMENTS, WEB, **NEW)
        await found.run_pods()

        await found.change(DEPLOYMENTS, WEB, template=template("web"))
        await found.run_pods()

        annotations = found.read(SETS, f"default/{first}")["metadata"]["annotations"]
        assert len(found.list(SETS)) == 2
        assert found.read(SETS, f"default/{first}")["spec"]["replicas"] == 1
    assert annotations["deployment.kubernetes.io/revision"] == "3"
    assert annotations["deployment.kubernetes.io/revision-history"] == "1"


async def test_recreate_waits_until_old_pods_are_gone(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("deployments", deployment(replicas=2, strategy={"type": "Recreate"}), "apps")
        await found.run_pods()
        for pod in found.pods():  # They are bound, so their deletion has a grace period.
            pod["spec"]["nodeName"] = "node"
            store.put("core/pods", pod)
        await found.rest()

        await found.change(DEPLOYMENTS, WEB, **NEW)
        during = sizes(found)
        for pod in found.pods():
            await found.delete("core/pods", f"default/{pod['metadata']['name']}")
        after = sizes(found)
    assert during == [0]
    assert after == [0, 2]


async def test_paused_deployment_is_scaled_but_not_rolled_out(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("deployments", deployment(replicas=1), "apps")
        await found.run_pods()
        await found.change(DEPLOYMENTS, WEB, paused=True, **NEW)
        await found.change(DEPLOYMENTS, WEB, replicas=2)
        paused = sizes(found), condition(found.read(DEPLOYMENTS, WEB), "Progressing")
        await found.change(DEPLOYMENTS, WEB, paused=False)
        assert len(sizes(found)) == 2
    assert paused == ([2], ("Unknown", "DeploymentPaused"))


async def test_rollout_without_progress_exceeds_its_deadline(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock) as found:
        await found.create("deployments", deployment(progressDeadlineSeconds=60), "apps")
        await found.advance(59)
        before = condition(found.read(DEPLOYMENTS, WEB), "Progressing")
        await found.advance(5)
        after = condition(found.read(DEPLOYMENTS, WEB), "Progressing")
    assert before[0] == "True"
    assert after == ("False", "ProgressDeadlineExceeded")


async def test_old_replica_sets_are_deleted_beyond_the_history_limit(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("deployments", deployment(replicas=1, revisionHistoryLimit=1), "apps")
        for number in range(2, 6):
            await found.run_pods()
            await found.change(DEPLOYMENTS, WEB, template=template("web", f"example.com/web:{number}"))
        await found.run_pods()
        assert sizes(found) == [0, 1]


async def test_replica_set_replaces_terminated_pods_and_deletes_surplus_ones(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        owner = {"metadata": {"name": "web"}, "spec": {"replicas": 3, **workload("web")}}
        await found.create("replicasets", owner, "apps")
        await found.run_pods()
        lost, kept, *_ = (pod["metadata"]["name"] for pod in found.pods())
        await found.finish(lost, "Failed")
        replaced = [pod["metadata"]["name"] for pod in found.pods()]
        await found.change(SETS, WEB, replicas=2)
        left = [pod["metadata"]["name"] for pod in found.pods()]
        notes = found.notes()
    assert len(replaced) == 4
    assert kept in left  # Ready pods are deleted last.
    assert len(left) == 3
    assert any(note.startswith("Created pod: web-") for note in notes)
    assert any(note.startswith("Deleted pod: web-") for note in notes)


async def test_replica_set_adopts_and_releases_pods_by_label(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("pods", {"metadata": {"name": "own", "labels": {"app": "web"}}, **one_pod()})
        owner = {"metadata": {"name": "web"}, "spec": {"replicas": 1, **workload("web")}}
        uid = (await found.create("replicasets", owner, "apps"))["metadata"]["uid"]
        adopted = found.read("core/pods", "default/own")

        pod = found.read("core/pods", "default/own")
        pod["metadata"]["labels"] = {"app": "debug"}
        store.put("core/pods", pod)
        await found.rest()
        released = found.read("core/pods", "default/own")
        names = [pod["metadata"]["name"] for pod in found.pods()]
    assert [item["uid"] for item in adopted["metadata"]["ownerReferences"]] == [uid]
    assert "ownerReferences" not in released["metadata"]
    assert len(names) == 2


async def test_rejected_pods_are_reported_in_the_status(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        broken = {"app": "web"}, {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "x"}]}]}
        owner = {
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "generation": 1},
            "kind": "ReplicaSet",
            "apiVersion": "apps/v1",
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": broken[0]},
                "template": {"metadata": {"labels": broken[0]}, "spec": broken[1]},
            },
        }
        store.put(SETS, owner)
        await found.rest()
        status = found.read(SETS, WEB)["status"]
    assert [item["reason"] for item in status["conditions"]] == ["FailedCreate"]
    assert "volumeMounts" in status["conditions"][0]["message"]


def one_pod() -> Object:
    return {"spec": {"containers": [{"name": "c", "image": "i"}]}}
