"""Tests for the controllers of Jobs and the time to live of finished Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.release import NEWEST, OLDEST
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import Cluster, Object, cluster

__all__ = ["store"]
pytestmark = pytest.mark.covers("apiserver_stub.controllers.workloads.finished_jobs")
JOBS = "batch/jobs"
TASK = "default/task"
INDEX, FAILURES = "batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-index-failure-count"
RETRIES = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1}


def job(name: str = "task", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {**job_spec(), **spec}}


def job_spec(**spec: Any) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/task:1"}]}
    return {"template": {"metadata": {}, "spec": pod}, **spec}


def types(found: Cluster) -> dict[str, str]:
    conditions = found.read(JOBS, TASK)["status"].get("conditions") or []
    return {item["type"]: item.get("reason", "") for item in conditions if item["status"] == "True"}


def running(found: Cluster) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in found.pods()
        if pod["status"]["phase"] not in ("Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]
    ]


async def test_job_completes_after_enough_successes(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(completions=3, parallelism=2), "batch")
        first = running(found)
        for _ in range(3):
            await found.finish(running(found)[0])
        status = found.read(JOBS, TASK)["status"]
        finalizers = [pod["metadata"].get("finalizers") for pod in found.pods()]
        notes = found.notes()
        assert types(found) == {"Complete": ""}
    assert len(first) == 2
    assert (status["succeeded"], status.get("active"), status["uncountedTerminatedPods"]) == (3, None, {})
    assert "completionTime" in status
    assert finalizers == [None] * 3
    assert "Job completed" in notes


async def test_failed_pods_are_retried_after_growing_pauses_up_to_the_limit(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock) as found:
        await found.create("jobs", job(backoffLimit=2), "batch")
        counts = []
        for pause in (10, 20, 40):
            await found.finish(running(found)[0], "Failed")
            counts.append(len(running(found)))
            await found.advance(pause + 1)
            counts.append(len(running(found)))
        status = found.read(JOBS, TASK)["status"]
        assert types(found) == {"Failed": "BackoffLimitExceeded"}
    assert counts == [0, 1, 0, 1, 0, 0]
    assert status["failed"] == 3


async def test_deadline_ends_the_job_and_its_pods(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock) as found:
        await found.create("jobs", job(activeDeadlineSeconds=30), "batch")
        await found.advance(32)
        assert types(found) == {"Failed": "DeadlineExceeded"}
        assert running(found) == []


async def test_indexed_job_runs_each_index_once(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(completions=4, parallelism=2, completionMode="Indexed"), "batch")
        indexes = [pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in found.pods()]
        hosts = sorted(pod["spec"]["hostname"] for pod in found.pods())
        for _ in range(4):
            await found.finish(running(found)[0])
        status = found.read(JOBS, TASK)["status"]
    assert sorted(indexes) == ["0", "1"]
    assert hosts == ["task-0", "task-1"]
    assert status["completedIndexes"] == "0-3"


async def test_suspended_job_has_no_pods_until_it_is_resumed(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(suspend=True), "batch")
        before = running(found), types(found)
        await found.change(JOBS, TASK, suspend=False)
        assert len(running(found)) == 1
    assert before == ([], {"Suspended": "JobSuspended"})


async def test_failure_policy_fails_the_job(store: MeteredStore) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(podFailurePolicy={"rules": [rule]}), "batch")
        code = [{"name": "c", "state": {"terminated": {"exitCode": 42}}}]
        await found.finish(running(found)[0], "Failed", containerStatuses=code)
        assert types(found) == {"Failed": "PodFailurePolicy"}


async def test_finished_job_is_deleted_after_its_time_to_live(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock) as found:
        await found.create("jobs", job(ttlSecondsAfterFinished=60), "batch")
        await found.finish(running(found)[0])
        await found.advance(50)
        before = "deletionTimestamp" in found.read(JOBS, TASK)["metadata"]
        await found.advance(10)
        after = "deletionTimestamp" in found.read(JOBS, TASK)["metadata"]
    assert (before, after) == (False, True)


async def test_finalizers_of_pods_of_a_deleted_job_are_removed(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock) as found:
        await found.create("jobs", job(), "batch")
        await found.delete(JOBS, TASK)
        await found.advance(2)
        (pod,) = found.pods()
    assert "finalizers" not in pod["metadata"]


def of_index(found: Cluster, index: int) -> str:
    """Return the name of the running pod with *index*."""
    pods = {pod["metadata"]["name"]: pod["metadata"]["annotations"][INDEX] for pod in found.pods()}
    return next(name for name in running(found) if pods[name] == str(index))


async def exit_with(found: Cluster, name: str, code: int) -> None:
    """Report that the container of pod *name* has failed."""
    statuses = [{"name": "c", "state": {"terminated": {"exitCode": code}}}]
    await found.finish(name, "Failed", containerStatuses=statuses)


async def test_jobs_of_another_controller_are_ignored() -> None:
    for manager, expected in ((None, 1), ("kubernetes.io/job-controller", 1), ("example.com/jobs", 0)):
        async with cluster(MeteredStore(), FakeClock(), "job-controller") as found:
            await found.create("jobs", job(suspend=True), "batch")
            await found.change(JOBS, TASK, managedBy=manager, suspend=False)
            assert len(running(found)) == expected, manager


async def test_job_without_completions_ends_with_the_pods_that_run(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(parallelism=2), "batch")
        first, second = running(found)
        await found.finish(first)
        left, types_before = running(found), types(found)
        await found.finish(second)
        assert types(found) == {"Complete": ""}
    assert (left, types_before) == ([second], {})


async def test_lower_parallelism_deletes_pods_that_are_not_ready_first(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(completions=3, parallelism=3), "batch")
        kept = running(found)[1]
        await found.run_pods(kept)
        status = found.read(JOBS, TASK)["status"]
        await found.change(JOBS, TASK, parallelism=1)
        assert running(found) == [kept]
    assert (status["active"], status["ready"]) == (3, 1)


def indexes(found: Cluster) -> list[str]:
    pods = [found.read("core/pods", f"default/{name}") for name in running(found)]
    return sorted(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods)


async def test_smaller_indexed_job_deletes_pods_of_indexes_that_it_has_no_longer(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(completions=3, parallelism=3, completionMode="Indexed"), "batch")
        ready = [name for name in running(found) if name.startswith("task-2-")]
        await found.run_pods(*ready)
        await found.change(JOBS, TASK, completions=2, parallelism=2)
        assert indexes(found) == ["0", "1"]


async def test_pods_with_the_index_of_another_one_are_deleted(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(completions=2, parallelism=2, completionMode="Indexed"), "batch")
        first = found.read("core/pods", f"default/{running(found)[0]}")
        for name in ("copy-a", "copy-b"):
            store.put("core/pods", {**first, "metadata": {**first["metadata"], "name": name, "uid": name}})
        await found.run_pods("copy-")
        assert indexes(found) == ["0", "1"]


async def test_last_completions_need_fewer_pods_than_the_parallelism(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(completions=3, parallelism=2), "batch")
        for name in running(found):
            await found.set_status("core/pods", f"default/{name}", phase="Succeeded")
        assert len(running(found)) == 1


async def test_ignored_failures_are_not_counted(store: MeteredStore) -> None:
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}
    clock = FakeClock()
    async with cluster(store, clock) as found:
        await found.create("jobs", job(podFailurePolicy={"rules": [rule]}, backoffLimit=1), "batch")
        for _ in range(3):
            await exit_with(found, running(found)[0], 42)
        ignored = found.read(JOBS, TASK)["status"].get("failed"), len(running(found))
        await exit_with(found, running(found)[0], 1)
        assert found.read(JOBS, TASK)["status"]["failed"] == 1
    assert ignored == (None, 1)


async def test_success_ends_the_pause_after_failures(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock) as found:
        await found.create("jobs", job(completions=3, parallelism=2), "batch")
        failing, succeeding = running(found)
        await found.finish(failing, "Failed")
        paused = len(running(found))
        await found.finish(succeeding)
        assert len(running(found)) == 2
    assert paused == 1


async def test_indexes_are_retried_and_fail_separately(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock) as found:
        await found.create("jobs", job(**RETRIES), "batch")
        counts = [pod["metadata"]["annotations"][FAILURES] for pod in found.pods()]
        await found.finish(of_index(found, 0), "Failed")
        await found.advance(11)
        retried = found.read("core/pods", f"default/{of_index(found, 0)}")["metadata"]["annotations"][FAILURES]
        await found.finish(of_index(found, 0), "Failed")
        await found.advance(30)
        failed = found.read(JOBS, TASK)["status"]["failedIndexes"], len(running(found)), types(found)
        await found.finish(of_index(found, 1))
        status = found.read(JOBS, TASK)["status"]
        assert types(found) == {"Failed": "FailedIndexes"}
    assert (counts, retried) == (["0", "0"], "1")
    assert failed == ("0", 1, {})
    assert (status["failedIndexes"], status["completedIndexes"]) == ("0", "1")


async def test_number_of_failed_indexes_is_limited() -> None:
    rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}
    for limit, expected in ((0, {"Failed": "MaxFailedIndexesExceeded"}), (1, {})):
        spec = {**RETRIES, "maxFailedIndexes": limit, "podFailurePolicy": {"rules": [rule]}}
        async with cluster(MeteredStore(), FakeClock()) as found:
            await found.create("jobs", job(**spec), "batch")
            await exit_with(found, of_index(found, 0), 42)
            assert types(found) == expected, limit
            assert len(running(found)) == (0 if expected else 1), limit


async def test_pods_of_an_indexed_job_know_their_index(store: MeteredStore) -> None:
    variable = "JOB_COMPLETION_INDEX"
    own = {"name": "own", "image": "i", "env": [{"name": variable, "value": "x"}]}
    pod = {"restartPolicy": "Never", "initContainers": [own], "containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": pod}
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(completions=1, completionMode="Indexed", template=template), "batch")
        (created,) = found.pods()
    spec, metadata = created["spec"], created["metadata"]
    assert [item.get("value") for item in spec["initContainers"][0]["env"]] == ["x"]
    (given,) = spec["containers"][0]["env"]
    assert given["name"] == variable
    assert given["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
    assert (metadata["labels"]["a"], metadata["labels"][INDEX]) == ("b", "0")
    assert (metadata["annotations"]["c"], metadata["annotations"][INDEX]) == ("d", "0")
    assert FAILURES not in metadata["annotations"]
    assert metadata["name"].startswith("task-0-")


async def test_success_policy_completes_the_job_early_in_releases_that_have_it() -> None:
    policy = {"rules": [{"succeededCount": 1}]}
    spec = {"completions": 3, "parallelism": 2, "completionMode": "Indexed"}
    for release, expected in (
        (NEWEST, {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"}),
        (OLDEST, {}),
    ):
        async with cluster(MeteredStore(), FakeClock(), release=release) as found:
            await found.create("jobs", job(**spec), "batch")
            await found.change(JOBS, TASK, successPolicy=policy)
            await found.finish(of_index(found, 0))
            assert types(found) == expected, release


async def test_failed_pods_are_replaced_after_they_have_terminated() -> None:
    for policy, replaced in (("TerminatingOrFailed", 1), ("Failed", 0)):
        async with cluster(MeteredStore(), FakeClock(), JobPodReplacementPolicy=True) as found:
            await found.create("jobs", job(podReplacementPolicy=policy), "batch")
            (name,) = running(found)
            pod = found.read("core/pods", f"default/{name}")
            pod["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
            pod["metadata"]["finalizers"].append("example.com/logs")
            found.store.put("core/pods", pod)
            await found.rest()
            await found.advance(11)
            terminating = found.read(JOBS, TASK)["status"]["terminating"]
            assert (len(running(found)), terminating) == (replaced, 1), policy

            await found.finish(name, "Failed")
            await found.advance(30)
            terminating = found.read(JOBS, TASK)["status"]["terminating"]
            assert (len(running(found)), terminating) == (1, 0), policy


async def test_suspension_stops_the_time_of_the_job(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock) as found:
        await found.create("jobs", job(activeDeadlineSeconds=60), "batch")
        started = found.read(JOBS, TASK)["status"]["startTime"]
        await found.change(JOBS, TASK, suspend=True)
        suspended = found.read(JOBS, TASK)["status"], running(found)
        await found.advance(100)
        await found.change(JOBS, TASK, suspend=False)
        resumed = found.read(JOBS, TASK)["status"], len(running(found))
        await found.advance(59)
        before = types(found)
        await found.advance(2)
        notes = found.notes()
        assert types(found) == {"Failed": "DeadlineExceeded"}
    assert ("startTime" in suspended[0], suspended[1]) == (False, [])
    assert resumed[0]["startTime"] > started
    assert (resumed[1], before) == (1, {})
    assert [item["status"] for item in resumed[0]["conditions"]] == ["False"]
    assert {"Job suspended", "Job resumed"} <= set(notes)


async def test_failure_target_of_another_server_fails_the_job(store: MeteredStore) -> None:
    target = {"type": "FailureTarget", "status": "True", "reason": "PodFailurePolicy", "message": "m"}
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(), "batch")
        await found.set_status(JOBS, TASK, conditions=[target])
        await found.advance(1)
        conditions = found.read(JOBS, TASK)["status"]["conditions"]
        notes = found.notes()
        assert running(found) == []
    assert [(item["type"], item["reason"], item["message"]) for item in conditions][1:] == [
        ("Failed", "PodFailurePolicy", "m")
    ]
    assert "m" in notes


async def test_finished_jobs_release_their_pods(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(), "batch")
        await found.set_status(JOBS, TASK, conditions=[{"type": "Failed", "status": "True"}])
        (pod,) = found.pods()
    assert "finalizers" not in pod["metadata"]


async def test_rejected_pod_is_reported_and_the_job_stays_active(store: MeteredStore) -> None:
    async with cluster(store, FakeClock()) as found:
        owner = await found.create("jobs", job(suspend=True), "batch")
        container = owner["spec"]["template"]["spec"]["containers"][0]
        container["volumeMounts"] = [{"name": "missing", "mountPath": "/x"}]
        await found.change(JOBS, TASK, suspend=False, template=owner["spec"]["template"])
        status = found.read(JOBS, TASK)["status"]
        notes = found.notes()
    assert "startTime" in status
    assert any(note.startswith("Error creating: ") for note in notes)


def put_pod(found: Cluster, name: str, *owners: Object, **metadata: Any) -> None:
    """Store a pod with the finalizer of Jobs."""
    fields = {"name": name, "namespace": "default", "uid": name, "finalizers": [TRACKING], **metadata}
    if owners:
        fields["ownerReferences"] = list(owners)
    found.store.put("core/pods", {"kind": "Pod", "metadata": fields, "spec": {}, "status": {"phase": "Running"}})


def owned_by(uid: str, name: str = "task") -> Object:
    return {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}


TRACKING = "batch.kubernetes.io/job-tracking"


async def test_only_pods_without_a_job_are_released(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "job-controller") as found:
        await found.create("jobs", job(), "batch")
        (own,) = running(found)
        put_pod(found, "replaced", owned_by("earlier"))
        put_pod(found, "missing", owned_by("missing", "missing"))
        put_pod(found, "free")
        put_pod(found, "other", owned_by("x", "x"), finalizers=["example.com/hold"])
        await found.advance(2)
        finalizers = {pod["metadata"]["name"]: pod["metadata"].get("finalizers") for pod in found.pods()}
    names = ("replaced", "missing", "free")
    assert {name: finalizers[name] for name in names} == dict.fromkeys(names)
    assert (finalizers[own], finalizers["other"]) == ([TRACKING], ["example.com/hold"])


async def test_rejected_pods_are_created_later(store: MeteredStore) -> None:
    def reject(collection: str, key: str) -> None:
        if collection == "core/pods":
            raise ApiError(403, "Forbidden", "rejected", {})

    async with cluster(store, FakeClock(), "job-controller") as found:
        store.before_update = reject
        await found.create("jobs", job(), "batch")
        store.before_update = None
        await found.advance(60)
        assert len(running(found)) == 1


@pytest.mark.parametrize(("index", "expected"), [("1", "1"), ("2", None), (None, None)])
async def test_only_pods_with_an_index_of_the_job_complete_it(
    store: MeteredStore, index: str | None, expected: str | None
) -> None:
    async with cluster(store, FakeClock(), "job-controller") as found:
        spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
        await found.create("jobs", job(**spec), "batch")
        name = of_index(found, 1)
        pod = found.read("core/pods", f"default/{name}")
        annotations = {INDEX: index} if index else {}
        store.put("core/pods", {**pod, "metadata": {**pod["metadata"], "annotations": annotations}})
        await found.finish(name)
        assert found.read(JOBS, TASK)["status"].get("completedIndexes") == expected


async def test_deadline_includes_its_last_second(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), "job-controller") as found:
        await found.create("jobs", job(activeDeadlineSeconds=30), "batch")
        await found.advance(30)
        await found.change(JOBS, TASK, parallelism=1)
        assert types(found) == {"Failed": "DeadlineExceeded"}


async def test_job_that_was_never_suspended_has_no_such_condition(
    store: MeteredStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(store, FakeClock()) as found:
        await found.create("jobs", job(), "batch")
        during, notes = found.read(JOBS, TASK)["status"], found.notes()
        await found.finish(running(found)[0])
        await found.advance(60)
        assert "deletionTimestamp" not in found.read(JOBS, TASK)["metadata"]
    assert "conditions" not in during
    assert "Job resumed" not in notes
    assert caplog.messages == []


@pytest.mark.parametrize(("ready", "remaining"), [(None, "b"), ("c", "c"), ("a", "a")])
async def test_unready_and_younger_pods_are_deleted_first(
    store: MeteredStore, ready: str | None, remaining: str
) -> None:
    """The pod ``b`` is the oldest."""
    async with cluster(store, FakeClock(), "job-controller") as found:
        await found.create("jobs", job(parallelism=3, completions=3), "batch")
        names = dict(zip("abc", running(found), strict=True))
        for name, day in (("a", 2), ("b", 1), ("c", 3)):
            pod = found.read("core/pods", f"default/{names[name]}")
            pod["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
            pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(name == ready)}]}
            store.put("core/pods", pod)
        await found.change(JOBS, TASK, parallelism=1)
        assert running(found) == [names[remaining]]
