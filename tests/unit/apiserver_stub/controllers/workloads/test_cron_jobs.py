"""Tests for the CronJob controller: times, concurrency, histories and events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import Cluster, Object, cluster
from tests.unit.apiserver_stub.controllers.workloads.test_jobs import job_spec, running

__all__ = ["store"]
JOBS, CRON_JOBS = "batch/jobs", "batch/cronjobs"
TICK = "default/tick"


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


def tick(schedule: str = "*/5 * * * *", **spec: Any) -> Object:
    """Return the CronJob tick."""
    fields = {"schedule": schedule, "jobTemplate": {"spec": job_spec()}, **spec}
    return {"metadata": {"name": "tick"}, "spec": fields}


def at(found: Cluster, seconds_ago: float) -> str:
    return objects.format_time(found.clock.wall() - timedelta(seconds=seconds_ago))


async def create_before(found: Cluster, seconds: float, cron_job: Object) -> None:
    """Create *cron_job* as if it had been created *seconds* ago."""
    cron_job["metadata"]["creationTimestamp"] = at(found, seconds)
    await create_now(found, cron_job)


async def test_missed_times_start_one_job_for_the_latest() -> None:
    for title, age, spec, count, warnings in (
        ("none is due", 1, {"schedule": "0 0 1 1 *"}, 0, []),
        ("one", 300, {}, 1, []),
        ("many", 400 * 60, {"schedule": "* * * * *"}, 1, ["too many missed start times"]),
        ("some", 90 * 60, {"schedule": "* * * * *"}, 1, []),
        ("before the deadline", 600, {"startingDeadlineSeconds": 300}, 1, []),
        ("suspended", 300, {"suspend": True}, 0, []),
        ("invalid schedule", 300, {"schedule": "x"}, 0, ["unparseable schedule"]),
        ("unknown zone", 300, {"timeZone": "No/Where"}, 0, ["invalid timeZone"]),
        ("zone", 300, {"timeZone": "Asia/Tokyo"}, 1, []),
    ):
        async with cluster(MeteredStore(), FakeClock(), "cronjob-controller") as found:
            await create_before(found, age, tick(**spec))
            jobs, now = found.list(JOBS), found.clock.wall()
            assert len(jobs) == count, title
            for text in warnings:
                assert any(text in note for note in found.notes()), title
            assert warnings or not any("missed" in note for note in found.notes()), title
            if jobs:
                name = jobs[0]["metadata"]["name"]
                scheduled = int(name.removeprefix("tick-")) * 60
                assert 0 <= now.timestamp() - scheduled < 300, title
                status = found.read(CRON_JOBS, TICK)["status"]
                assert [item["name"] for item in status["active"]] == [name], title
                given = jobs[0]["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
                assert given.endswith("+09:00" if spec.get("timeZone") else "Z"), title


async def test_time_beyond_the_starting_deadline_is_missed() -> None:
    async with cluster(MeteredStore(), FakeClock(), "cronjob-controller") as found:
        # The latest time is up to five minutes ago; a job that late must not start.
        await found.advance(150 - found.clock.wall().timestamp() % 300 + 300)
        await create_before(found, 600, tick(startingDeadlineSeconds=100))
        late = len(found.list(JOBS))
        await found.advance(151)
        assert len(found.list(JOBS)) == 1
    assert late == 0


async def test_job_of_the_same_time_is_started_once() -> None:
    async with cluster(MeteredStore(), FakeClock(), "cronjob-controller") as found:
        await create_before(found, 300, tick())
        (job,) = found.list(JOBS)
        await found.delete(JOBS, f"default/{job['metadata']['name']}")
        await found.change(CRON_JOBS, TICK, successfulJobsHistoryLimit=3)
        assert found.list(JOBS) == []
        assert "active" not in found.read(CRON_JOBS, TICK)["status"]


async def test_active_job_of_the_same_time_is_not_replaced() -> None:
    async with cluster(MeteredStore(), FakeClock(), "cronjob-controller") as found:
        await create_before(found, 300, tick(concurrencyPolicy="Replace"))
        (before,) = found.list(JOBS)
        await found.set_status(CRON_JOBS, TICK, lastScheduleTime=None)
        await found.change(CRON_JOBS, TICK, successfulJobsHistoryLimit=3)
        assert [job["metadata"]["uid"] for job in found.list(JOBS)] == [before["metadata"]["uid"]]


async def test_replace_policy_deletes_the_active_job() -> None:
    for policy, expected in (("Replace", 1), ("Allow", 2), (None, 2)):
        async with cluster(MeteredStore(), FakeClock(), "cronjob-controller") as found:
            await create_before(found, 300, tick(concurrencyPolicy=policy))
            first = found.list(JOBS)[0]["metadata"]["name"]
            await found.advance(301)
            active = [item["name"] for item in found.read(CRON_JOBS, TICK)["status"]["active"]]
            assert len(active) == expected, policy
            assert (first in active) is (expected == 2), policy
            assert (f"Deleted job {first}" in found.notes()) is (policy == "Replace"), policy
            assert not any("did not create or forgot" in note for note in found.notes()), policy


async def test_job_that_exists_is_adopted_only_if_it_is_owned() -> None:
    for uid, adopted in (("u", True), ("other", False)):
        async with cluster(MeteredStore(), FakeClock(), "cronjob-controller") as found:
            due = int(found.clock.wall().timestamp() // 300 * 300) // 60
            owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": uid, "controller": True}
            metadata = {"name": f"tick-{due}", "namespace": "default", "uid": "j", "ownerReferences": [owner]}
            found.store.put(JOBS, {"metadata": metadata, "spec": job_spec()})
            await create_before(found, 300, tick())
            status = found.read(CRON_JOBS, TICK).get("status") or {}
            assert [item["uid"] for item in status.get("active") or ()] == (["j"] if adopted else []), uid


async def test_history_keeps_the_latest_jobs_of_each_result() -> None:
    def finished(name: str, kind: str, start: str, **status: Any) -> Object:
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": "u", "controller": True}
        metadata = {"name": name, "namespace": "default", "uid": name, "ownerReferences": [owner]}
        conditions = [{"type": kind, "status": "True"}]
        return {"metadata": metadata, "spec": {}, "status": {"startTime": start, "conditions": conditions, **status}}

    async with cluster(MeteredStore(), FakeClock(), "cronjob-controller") as found:
        for job in (
            finished("c1", "Complete", "2024-01-01T00:00:00Z", completionTime="2024-01-01T00:01:00Z"),
            finished("a3", "Complete", "2024-01-03T00:00:00Z", completionTime="2024-01-03T00:01:00Z"),
            finished("c2", "Complete", "2024-01-02T00:00:00Z", completionTime="2024-01-02T00:01:00Z"),
            finished("f2", "Failed", "2024-01-02T00:00:00Z", completionTime="2024-01-09T00:01:00Z"),
            finished("f1", "Failed", "2024-01-02T00:00:00Z"),
        ):
            found.store.put(JOBS, job)
        limits = {"successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1}
        await create_before(found, 0, tick("0 0 1 1 *", **limits))
        left = [job["metadata"]["name"] for job in found.list(JOBS)]
        status = found.read(CRON_JOBS, TICK)["status"]
        await found.change(CRON_JOBS, TICK, successfulJobsHistoryLimit=None, failedJobsHistoryLimit=0)
        assert [job["metadata"]["name"] for job in found.list(JOBS)] == ["a3", "c2"]
    assert left == ["a3", "c2", "f2"]
    assert status["lastSuccessfulTime"] == "2024-01-03T00:01:00Z"


async def test_missing_and_unexpected_jobs_are_reported() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": "u", "controller": True}
    metadata = {"name": "manual", "namespace": "default", "uid": "m", "ownerReferences": [owner]}
    async with cluster(MeteredStore(), FakeClock(), "cronjob-controller") as found:
        found.store.put(JOBS, {"metadata": metadata, "spec": job_spec()})
        await create_before(found, 0, tick("0 0 1 1 *"))
        unexpected = found.notes()
        await found.set_status(CRON_JOBS, TICK, active=[{"name": "lost", "uid": "lost"}])
        await found.change(CRON_JOBS, TICK, failedJobsHistoryLimit=2)
        assert "Active job went missing: lost" in found.notes()
        assert "active" not in found.read(CRON_JOBS, TICK)["status"]
    assert any(note.endswith("did not create or forgot: manual") for note in unexpected)


@pytest.mark.parametrize("written", [None, "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"])
async def test_job_that_the_status_does_not_list_is_active(written: str | None) -> None:
    """A write of the status that fails after the creation of a job must not start another one."""
    async with cluster(MeteredStore(), FakeClock(), "cronjob-controller") as found:
        await create_before(found, 300, tick(concurrencyPolicy="Forbid"))
        (job,) = found.list(JOBS)
        expected = found.read(CRON_JOBS, TICK)["status"]
        await found.set_status(CRON_JOBS, TICK, active=None, lastScheduleTime=written)
        await found.change(CRON_JOBS, TICK, failedJobsHistoryLimit=1)
        restored = found.read(CRON_JOBS, TICK)["status"]
        await found.advance(301)
        assert found.list(JOBS) == [job]
    times = [time for time in (expected["lastScheduleTime"], written) if time]
    assert restored == {**expected, "lastScheduleTime": max(times)}


async def test_deleted_cron_job_starts_no_job() -> None:
    async with cluster(MeteredStore(), FakeClock(), "cronjob-controller") as found:
        cron_job = tick()
        cron_job["metadata"]["deletionTimestamp"] = at(found, 0)
        await create_before(found, 300, cron_job)
        assert found.list(JOBS) == []


@pytest.mark.parametrize("minutes", [5, 10, 15])
async def test_time_of_the_schedule_is_due_immediately(store: MeteredStore, minutes: int) -> None:
    clock = FakeClock(wall=datetime(2026, 1, 1, 12, tzinfo=UTC))
    async with cluster(store, clock, "cronjob-controller") as found:
        await create_before(found, minutes * 60, tick())
        (job,) = found.list(JOBS)
        assert job["metadata"]["name"] == f"tick-{int(clock.wall().timestamp()) // 60}"


@pytest.mark.parametrize(("missed", "warns"), [(100, False), (101, True)])
async def test_more_than_a_hundred_missed_times_are_reported(store: MeteredStore, missed: int, *, warns: bool) -> None:
    async with cluster(store, FakeClock(wall=datetime(2026, 1, 1, 12, tzinfo=UTC)), "cronjob-controller") as found:
        await create_before(found, missed * 60, tick("* * * * *"))
        assert any("too many missed start times" in note for note in found.notes()) is warns


async def test_jobs_have_the_labels_and_annotations_of_the_template(store: MeteredStore) -> None:
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    async with cluster(store, FakeClock(), "cronjob-controller") as found:
        await create_before(found, 300, tick(jobTemplate={"metadata": metadata, "spec": job_spec()}))
        (job,) = found.list(JOBS)
    assert job["metadata"]["labels"] == {"a": "b"}
    assert job["metadata"]["annotations"]["c"] == "d"


@pytest.mark.parametrize("time", ["2026-01-02T00:00:00Z", None])
async def test_last_successful_time_does_not_decrease(store: MeteredStore, time: str | None) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": "u", "controller": True}
    metadata = {"name": "j", "namespace": "default", "uid": "j", "ownerReferences": [owner]}
    earlier = {} if time is None else {"completionTime": "2026-01-01T00:00:00Z"}
    status = {**earlier, "conditions": [{"type": "Complete", "status": "True"}]}
    store.put(JOBS, {"metadata": metadata, "spec": {}, "status": status})
    before = {} if time is None else {"lastSuccessfulTime": time}
    async with cluster(store, FakeClock(), "cronjob-controller") as found:
        await create_before(found, 0, {**tick("0 0 1 1 *"), "status": {**before, "active": []}})
        assert found.read(CRON_JOBS, TICK)["status"].get("lastSuccessfulTime") == time


@pytest.mark.parametrize("status", [{}, {"lastScheduleTime": "2024-01-02T15:00:00Z"}, None])
async def test_unchanged_status_is_not_written(store: MeteredStore, status: Object | None) -> None:
    async with cluster(store, FakeClock(), "cronjob-controller") as found:
        await create_before(found, 300, {**tick(suspend=True), "status": status})
        assert store.writes == 1


@pytest.mark.parametrize("cause", ["NamespaceTerminating", "Other"])
async def test_rejected_job_is_reported_unless_the_namespace_is_deleted(store: MeteredStore, cause: str) -> None:
    def reject(collection: str, key: str) -> None:
        if collection == JOBS:
            raise ApiError(403, "Forbidden", "rejected", {"causes": [{"reason": cause}]})

    store.before_update = reject
    async with cluster(store, FakeClock(), "cronjob-controller") as found:
        await create_before(found, 300, tick())
        assert found.list(JOBS) == []
        assert ("Error creating job: rejected" in found.notes()) is (cause == "Other")
