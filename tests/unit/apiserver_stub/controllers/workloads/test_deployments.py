"""Tests for the Deployment and ReplicaSet controllers: rollouts, sizes, history, adoption and status."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import Object
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import (
    DEPLOYMENTS,
    PODS,
    SETS,
    Cluster,
    cluster,
    deployment,
    template,
    workload,
)

__all__ = ["store"]
WEB = "default/web"
ONLY = "deployment-controller"
CURRENT = "example.com/web:1"
REVISION = "deployment.kubernetes.io/revision"
DESIRED, MOST = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"
RECREATE = {"type": "Recreate"}
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
NO_DEADLINE = 2**31 - 1
OTHER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other", "uid": "other", "controller": True}
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


# Decisions of the Deployment controller; the tests set the status of ReplicaSets instead of their controller.


def replica_set(
    name: str, size: int, *, image: str = "example.com/old:1", at: int = 1, available: int = 0, **changes: Any
) -> Object:
    """Return a ReplicaSet that the Deployment of :func:`stored` manages.

    :param at: revision, and order of creation.
    :param available: number of its pods, which are all available.
    :param changes: fields of the metadata.
    """
    labels = {"app": "web", "pod-template-hash": name}
    body = template("web", image)
    body["metadata"]["labels"] = labels
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": True}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "generation": 1,
        "creationTimestamp": f"2024-01-01T00:00:0{at}Z",
        "labels": labels,
        "annotations": {REVISION: str(at), DESIRED: "3", MOST: "4"},
        "ownerReferences": [reference],
        **changes,
    }
    counts = {"replicas": available, "readyReplicas": available, "availableReplicas": available}
    spec = {"replicas": size, "selector": {"matchLabels": labels}, "template": body}
    status = {"observedGeneration": 1, **counts}
    return {"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": metadata, "spec": spec, "status": status}


async def stored(found: Cluster, *sets: Object, metadata: Object | None = None, **spec: Any) -> Object:
    """Store *sets*, then a Deployment, and return it after the controller has processed it."""
    obj = deployment(**{"strategy": ROLLING, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10, **spec})
    obj["metadata"] |= {"namespace": "default", "uid": "uid-web", "generation": 1, **(metadata or {})}
    for item in sets:
        found.store.put(SETS, item)
    found.store.put(DEPLOYMENTS, {"kind": "Deployment", "apiVersion": "apps/v1", **obj})
    await found.rest()
    changed: Object = found.read(DEPLOYMENTS, WEB)
    return changed


def by_name(found: Cluster) -> dict[str, int]:
    """Return the sizes of the ReplicaSets."""
    return {item["metadata"]["name"]: item["spec"]["replicas"] for item in found.list(SETS)}


def messages(obj: Object) -> list[str]:
    return [item["message"] for item in obj["status"]["conditions"]]


async def test_deployment_that_selects_all_pods_is_reported(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await stored(found, selector={})
        assert found.list(SETS) == []
        assert found.notes() == ["This deployment is selecting all pods. A non-empty selector is required."]


async def test_deleted_deployment_only_reports_its_status(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        deleted = {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]}
        status = (await stored(found, replica_set("a", 2, available=2), metadata=deleted))["status"]
        assert by_name(found) == {"a": 2}
    assert (status["observedGeneration"], status["replicas"], status["availableReplicas"]) == (1, 2, 2)
    assert "updatedReplicas" not in status


async def test_paused_deployment_without_replica_sets_creates_none(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        paused = await stored(found, paused=True)
        during = found.list(SETS)
        await found.change(DEPLOYMENTS, WEB, paused=False)
        (created,) = found.list(SETS)
        resumed = found.read(DEPLOYMENTS, WEB)
    assert during == []
    assert paused["status"]["observedGeneration"] == 1
    assert messages(paused) == ["Deployment is paused", "Deployment does not have minimum availability."]
    assert created["spec"]["replicas"] == 3
    assert f'Created new replica set "{created["metadata"]["name"]}"' in messages(resumed)


async def test_pauses_are_reported_unless_progress_has_timed_out(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock, ONLY) as found:
        await stored(found, replica_set("a", 3, image=CURRENT, available=2))
        reasons = []
        for paused in (True, False):
            await found.change(DEPLOYMENTS, WEB, paused=paused)
            reasons.append(condition(found.read(DEPLOYMENTS, WEB), "Progressing"))
        texts = messages(found.read(DEPLOYMENTS, WEB))
        await found.advance(602)
        for paused in (True, False):
            await found.change(DEPLOYMENTS, WEB, paused=paused)
            reasons.append(condition(found.read(DEPLOYMENTS, WEB), "Progressing"))
    assert reasons == [
        ("Unknown", "DeploymentPaused"),
        ("Unknown", "DeploymentResumed"),
        ("False", "ProgressDeadlineExceeded"),
        ("False", "ProgressDeadlineExceeded"),
    ]
    assert "Deployment is resumed" in texts


async def test_deployment_without_deadline_has_no_progress_condition(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        created = await stored(found, progressDeadlineSeconds=NO_DEADLINE)
        await found.change(DEPLOYMENTS, WEB, paused=True)
        paused = found.read(DEPLOYMENTS, WEB)
        await found.delete(DEPLOYMENTS, WEB)
        name = found.list(SETS)[0]["metadata"]["name"]
        await found.delete(SETS, f"default/{name}")
        adopting = await stored(found, replica_set("a", 3, image=CURRENT), progressDeadlineSeconds=NO_DEADLINE)
    for obj in (created, paused, adopting):
        assert [item["type"] for item in obj["status"]["conditions"]] == ["Available"]


async def test_replica_set_with_the_template_is_found(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        item = replica_set("a", 3, image=CURRENT, at=4, ownerReferences=[])
        changed = await stored(found, item, minReadySeconds=5, metadata={"annotations": {"note": "x"}})
        new = found.read(SETS, "default/a")
    assert condition(changed, "Progressing") == ("True", "FoundNewReplicaSet")
    assert 'Found new replica set "a"' in messages(changed)
    assert changed["metadata"]["annotations"] == {"note": "x", REVISION: "4"}
    assert new["metadata"]["ownerReferences"][0]["uid"] == "uid-web"
    assert new["metadata"]["annotations"] == {"note": "x", REVISION: "4", DESIRED: "3", MOST: "4"}
    assert new["spec"]["minReadySeconds"] == 5


async def test_time_until_pods_are_available_is_that_of_the_deployment(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        item = replica_set("a", 3, image=CURRENT)
        for before, after in ((5, 0), (5, 7), (0, 7)):
            item["spec"]["minReadySeconds"] = before
            await stored(found, item, minReadySeconds=after)
            assert found.read(SETS, "default/a")["spec"]["minReadySeconds"] == after, (before, after)


async def test_created_replica_set_has_template_labels_and_annotations(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        body = template("web")
        body["metadata"]["annotations"] = {"of": "pods"}
        changed = await stored(
            found,
            replica_set("a", 0, at=6),
            minReadySeconds=7,
            template=body,
            metadata={"annotations": {"note": "x"}},
        )
        (new,) = found.list(SETS, "web-")
        notes = found.notes()
    digest, name = new["metadata"]["labels"]["pod-template-hash"], new["metadata"]["name"]
    assert name == f"web-{digest}"
    assert new["metadata"]["labels"] == new["spec"]["template"]["metadata"]["labels"]
    assert new["metadata"]["labels"] == {"app": "web", "pod-template-hash": digest}
    assert new["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": digest}}
    assert new["metadata"]["annotations"] == {"note": "x", REVISION: "7", DESIRED: "3", MOST: "4"}
    assert new["spec"]["template"]["metadata"]["annotations"] == {"of": "pods"}
    assert (new["spec"]["replicas"], new["spec"]["minReadySeconds"], new["metadata"]["generation"]) == (3, 7, 1)
    assert changed["metadata"]["annotations"] == {"note": "x", REVISION: "7"}
    assert condition(changed, "Progressing") == ("True", "NewReplicaSetCreated")
    assert notes == [f"Scaled up replica set {name} to 3"]


async def test_empty_replica_set_is_created_without_an_event(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await stored(found, replicas=0)
        assert sizes(found) == [0]
        assert found.notes() == []


async def test_name_of_another_replica_set_is_avoided(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await stored(found)
        taken = found.list(SETS)[0]
        await found.delete(DEPLOYMENTS, WEB)
        for change in ({"image": "example.com/old:1"}, {"image": CURRENT, "ownerReferences": [OTHER]}):
            await found.delete(SETS, f"default/{taken['metadata']['name']}")
            item = replica_set(taken["metadata"]["name"], 1, labels={"app": "other"}, **change)
            changed = await stored(found, item)
            assert changed["status"]["collisionCount"] == 1, change
            names = {item["metadata"]["name"] for item in found.list(SETS)} - {taken["metadata"]["name"]}
            assert len(names) == 1, change
            await found.delete(DEPLOYMENTS, WEB)
            await found.delete(SETS, f"default/{names.pop()}")


async def test_own_replica_set_that_appears_during_its_creation_is_used(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await stored(found)
        taken = found.list(SETS)[0]
        other = replica_set(taken["metadata"]["name"], 3)
        for appearing, collisions in ((taken, 0), (other, 1)):
            await found.delete(DEPLOYMENTS, WEB)
            for item in found.list(SETS):
                await found.delete(SETS, f"default/{item['metadata']['name']}")

            def appear(collection: str, key: str, item: Object = appearing) -> None:
                if collection == SETS:
                    store.before_update = None
                    store.put(SETS, item)

            store.before_update = appear
            changed = await stored(found)
            assert changed["status"].get("collisionCount", 0) == collisions
            assert len(found.list(SETS)) == 1 + collisions


async def test_deployment_that_is_deleted_during_its_processing_is_dropped(
    store: MeteredStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:

        def disappear(collection: str, key: str) -> None:
            if collection == DEPLOYMENTS:
                store.before_update = None
                store.remove(DEPLOYMENTS, WEB)

        store.before_update = disappear
        assert await stored(found, replica_set("a", 3, image=CURRENT)) is None
    assert caplog.records == []


async def test_rejected_replica_set_is_reported(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        broken = template("web")
        broken["spec"]["containers"][0]["volumeMounts"] = [{"name": "x", "mountPath": "/x"}]
        without = await stored(found, template=broken, progressDeadlineSeconds=NO_DEADLINE)
        await found.change(DEPLOYMENTS, WEB, progressDeadlineSeconds=600)
        await found.advance(60)
        changed = found.read(DEPLOYMENTS, WEB)
        notes = found.notes()
    assert "status" not in without
    assert condition(changed, "Progressing") == ("False", "ReplicaSetCreateError")
    (text,) = messages(changed)
    assert text in notes
    assert text.startswith('Failed to create new replica set "web-')
    assert "volumeMounts" in text


async def test_size_of_the_only_active_replica_set_is_that_of_the_deployment(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        for strategy in (ROLLING, RECREATE):
            for spec, sets, expected in (
                ({"replicas": 5}, [replica_set("a", 3, image=CURRENT)], {"a": 5}),
                ({"replicas": 1}, [replica_set("a", 3, image=CURRENT)], {"a": 1}),
                ({"replicas": 5}, [replica_set("a", 3), replica_set("b", 0, image=CURRENT, at=2)], {"a": 5, "b": 0}),
                ({"replicas": 2, "paused": True}, [replica_set("a", 0), replica_set("b", 0, at=2)], {"a": 0, "b": 2}),
                (
                    {"replicas": 2, "paused": True},
                    [replica_set("a", 0, image=CURRENT), replica_set("b", 0, at=2)],
                    {"a": 2, "b": 0},
                ),
            ):
                for name in by_name(found):
                    store.remove(SETS, f"default/{name}")
                paused = {**spec, "paused": True}  # Scaled, and not rolled out afterwards.
                await stored(found, *sets, strategy=strategy, **paused)
                assert by_name(found) == expected, (strategy, spec)
        notes = found.notes()
        annotations = found.read(SETS, "default/a")["metadata"]["annotations"]
    assert {"Scaled up replica set a to 5 from 3", "Scaled down replica set a to 1 from 3"} <= set(notes)
    assert annotations[DESIRED] == "2"


async def test_replica_set_that_is_scaled_up_is_not_deleted_as_history(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        await stored(found, replica_set("a", 0), replica_set("b", 0, at=2), paused=True, revisionHistoryLimit=0)
        assert by_name(found) == {"b": 3}


async def test_scaled_deployment_resizes_its_replica_sets_in_proportion(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        sets = [replica_set("a", 2, available=2), replica_set("b", 2, image=CURRENT, at=2, available=1)]
        await stored(found, *sets, replicas=9, paused=True)
        rolling = by_name(found)
        annotations = [item["metadata"]["annotations"] for item in found.list(SETS)]
        await stored(found, *sets, replicas=9, paused=True, strategy=RECREATE)
        assert by_name(found) == {"a": 2, "b": 2}
    assert rolling == {"a": 6, "b": 6}
    assert [(item[DESIRED], item[MOST]) for item in annotations] == [("9", "12")] * 2


async def test_old_replica_sets_are_emptied_when_the_new_one_is_available(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        for size, available, desired, expected in (
            (3, 3, "3", {"a": 0, "b": 3}),
            (3, 2, "3", {"a": 1, "b": 3}),
            (3, 3, "2", {"a": 1, "b": 3}),
        ):
            new = replica_set("b", size, image=CURRENT, at=2, available=available)
            new["metadata"]["annotations"] = {REVISION: "2", DESIRED: desired, MOST: "4"}
            await stored(found, replica_set("a", 1, available=1), new, paused=True, strategy=RECREATE)
            assert by_name(found) == expected, (size, available, desired)


async def test_recreate_empties_the_old_replica_set_first(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        new = replica_set("b", 0, image=CURRENT, at=2)
        await stored(found, replica_set("a", 3, available=3), new, strategy=RECREATE)
        during = by_name(found), found.read(DEPLOYMENTS, WEB)["status"]["replicas"]
        await found.set_status(SETS, "default/a", replicas=0)
        after = by_name(found)
        notes = found.notes()
    assert during == ({"a": 0, "b": 0}, 3)
    assert after == {"a": 0, "b": 3}
    assert notes == ["Scaled down replica set a to 0 from 3", "Scaled up replica set b to 3 from 0"]


async def test_recreate_does_not_wait_for_terminated_pods(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), ONLY) as found:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "uid-a", "controller": True}
        for phase, expected in (("Running", [0]), ("Failed", [0, 3]), ("Succeeded", [0, 3])):
            metadata = {"name": "p", "namespace": "default", "uid": "p", "ownerReferences": [owner]}
            store.put(PODS, {"metadata": metadata, "status": {"phase": phase}})
            await stored(found, replica_set("a", 0), strategy=RECREATE)
            assert sizes(found) == expected, phase
            for item in found.list(SETS):
                store.remove(SETS, f"default/{item['metadata']['name']}")


async def test_history_keeps_replica_sets_that_are_used_or_not_observed(store: MeteredStore) -> None:
    new = replica_set("new", 3, image=CURRENT, at=9, available=3)
    unobserved = replica_set("unobserved", 0, at=2)
    unobserved["metadata"]["generation"] = 2
    terminating = replica_set("terminating", 0, at=3, available=1)
    deleted = replica_set("deleted", 0, at=4, deletionTimestamp="2024-01-01T00:00:00Z", finalizers=["x"])
    old = [replica_set(f"old-{at}", 0, at=at) for at in (5, 6)]
    complete = {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}
    kept = {"unobserved", "terminating", "deleted"}
    async with cluster(store, FakeClock(), ONLY) as found:
        for limit, expected in (
            (None, {*kept, "old-5", "old-6"}),
            (9, {*kept, "old-5", "old-6"}),
            (4, {*kept, "old-5", "old-6"}),
            (2, {*kept, "old-5", "old-6"}),
            (1, {*kept, "old-6"}),
            (0, kept),
        ):
            await stored(found, unobserved, terminating, deleted, *old, new, revisionHistoryLimit=limit, paused=True)
            assert set(by_name(found)) - {"new"} == expected, limit
        for strategy in (ROLLING, RECREATE):
            for status, expected in ((complete, {"old-6"}), ({**complete, "availableReplicas": 2}, {"old-5", "old-6"})):
                store.remove(DEPLOYMENTS, WEB)
                for name in by_name(found):
                    store.remove(SETS, f"default/{name}")
                item = replica_set("new", 3, image=CURRENT, at=9, available=status["availableReplicas"])
                await stored(found, *old, item, revisionHistoryLimit=1, strategy=strategy)
                assert set(by_name(found)) - {"new"} == expected, (strategy, status)
