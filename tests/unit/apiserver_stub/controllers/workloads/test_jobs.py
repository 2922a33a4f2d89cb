"""Tests for the controllers of Jobs, CronJobs and the time to live of finished Jobs."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery import objects
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import Cluster, Object, cluster

__all__ = ["store"]
JOBS, CRON_JOBS = "batch/jobs", "batch/cronjobs"
TASK = "default/task"


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
        await found.advance(12)
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


async def test_cron_job_creates_jobs_and_deletes_old_ones(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock) as found:
        spec = {"schedule": "*/5 * * * *", "successfulJobsHistoryLimit": 1, "jobTemplate": {"spec": job_spec()}}
        await create_now(found, {"metadata": {"name": "tick"}, "spec": spec})
        for _ in range(3):
            await found.advance(301)
            for name in running(found):
                await found.finish(name)
        jobs = [item["metadata"]["name"] for item in found.list(JOBS)]
        status = found.read(CRON_JOBS, "default/tick")["status"]
        notes = found.notes()
    assert len(jobs) == 1
    assert status["lastScheduleTime"].endswith(":00Z")
    assert "lastSuccessfulTime" in status
    assert f"Created job {jobs[0]}" in notes
    assert f"Saw completed job: {jobs[0]}, status: Complete" in notes


async def test_forbid_policy_waits_for_the_active_job(store: MeteredStore) -> None:
    clock = FakeClock()
    async with cluster(store, clock) as found:
        spec = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job_spec()}}
        await create_now(found, {"metadata": {"name": "tick"}, "spec": spec})
        for _ in range(3):
            await found.advance(60)
        jobs = found.list(JOBS)
    assert len(jobs) == 1


async def create_now(found: Cluster, cron_job: Object) -> None:
    """Create *cron_job* at the time of the fake clock."""
    created = {"creationTimestamp": objects.format_time(found.clock.wall())}
    metadata = {"namespace": "default", "uid": "u", "generation": 1, **created, **cron_job["metadata"]}
    obj = {"kind": "CronJob", "apiVersion": "batch/v1", **cron_job, "metadata": metadata}
    found.store.put(CRON_JOBS, obj)
    await found.rest()
