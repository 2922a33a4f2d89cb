"""CronJob controller: creates a Job at each time of a schedule, and deletes old ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.cron import CronError, Schedule, parse_schedule
from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from apiserver_stub.apimachinery.status import ApiError, quote
from apiserver_stub.controllers.plugin import ControllerContext
from apiserver_stub.controllers.views import OwnerView, View
from apiserver_stub.controllers.workloads.job_progress import COMPLETE, finished_condition
from apiserver_stub.controllers.workloads.owner_controller import OwnerController
from apiserver_stub.controllers.workloads.owners import controller_ref
from apiserver_stub.controllers.workloads.pod_writer import is_terminating
from nodeagent.base.selectors import LabelSelector

_JOBS = "batch/jobs"
_MANY = 100
"""Missed times after which a warning is recorded."""


class CronJobs(OwnerController):
    """CronJobs."""

    name, alias, kind = "cronjob-controller", "cronjob", "CronJob"
    owners = ("batch", "v1", "cronjobs")
    dependents = (_JOBS,)
    resources = ("cronjobs.batch", "jobs.batch")
    views: ClassVar[Mapping[str, type[View]]] = {"batch/cronjobs": OwnerView, _JOBS: OwnerView}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._jobs = self.writer.resource("batch", "v1", "jobs")
        self._scheduled_annotation = context.identity.label("cronjob-scheduled-timestamp", "batch")

    def selector_of(self, spec: Mapping[str, Any]) -> LabelSelector | None:
        return None

    async def sync(self, owner: Object) -> None:
        jobs = self._read(owner)
        await self._delete_history(owner, jobs)
        status = self._observe(owner, jobs)
        try:
            if "deletionTimestamp" not in owner["metadata"] and not owner["spec"].get("suspend"):
                await self._start_due(owner, status)
        finally:
            await self._write_status(owner, status)

    def _read(self, owner: Object) -> list[Object]:
        collection = self.context.verbs.store.collection(_JOBS)
        views = self.context.index.owned(_JOBS, owner["metadata"]["uid"])
        return [self._jobs.read(record) for view in views if (record := collection.get(view.key)) is not None]

    def _observe(self, owner: Object, jobs: Sequence[Object]) -> Object:
        """Return the status of *owner* by the state of its Jobs."""
        status: Object = objects.clone(owner.get("status") or {})
        by_uid = {job["metadata"]["uid"]: job for job in jobs}
        left = []
        for reference in status.get("active") or ():
            job = by_uid.get(reference.get("uid"))
            if job is None:
                text = f"Active job went missing: {reference.get('name')}"
                self.events.record(owner, "Normal", "MissingJob", "", text)
            elif (found := finished_condition(job)) is not None:
                text = f"Saw completed job: {job['metadata']['name']}, status: {found['type']}"
                self.events.record(owner, "Normal", "SawCompletedJob", "", text)
            else:
                left.append(reference)
        active = {reference["uid"] for reference in left}
        for uid, job in by_uid.items():
            finished = finished_condition(job)
            if finished is None and uid not in active:
                if (due := self._scheduled_time(job)) is not None:
                    left.append(_reference(job))  # The write of the status after its creation failed.
                    latest = max(due, parse_time(status.get("lastScheduleTime")) or due)
                    status["lastScheduleTime"] = objects.format_time(latest.astimezone(UTC))
                    continue
                saw = "Saw a job that the controller did not create or forgot"  # wording: ok
                text = f"{saw}: {job['metadata']['name']}"
                self.events.record(owner, "Warning", "UnexpectedJob", "", text)
            elif finished is not None and finished["type"] == COMPLETE:
                time = dig(job, ("status", "completionTime"))
                if time and time > (status.get("lastSuccessfulTime") or ""):
                    status["lastSuccessfulTime"] = time
        if left:
            status["active"] = left
        else:
            status.pop("active", None)
        return status

    def _scheduled_time(self, job: Object) -> datetime | None:
        """Return the time for which this controller created *job*, ``None`` if it did not."""
        return parse_time((job["metadata"].get("annotations") or {}).get(self._scheduled_annotation))

    async def _start_due(self, owner: Object, status: Object) -> None:
        """Create the Job that is due, and queue *owner* for the next time.

        :raises ApiError: the Job cannot be created.
        """
        spec, now = owner["spec"], self.context.clock.wall().astimezone(UTC)
        found = self._schedule(owner)
        if found is None:
            return
        schedule, zone = found
        due = self._due(owner, schedule, zone, now)
        following = schedule.next(now, zone)
        if following is not None:
            self._again(owner, (following - now).total_seconds() + 0.1)
        if due is None:
            return
        name = f"{owner['metadata']['name']}-{int(due.timestamp()) // 60}"
        active = status.get("active") or []
        if any(item.get("name") == name for item in active) or parse_time(status.get("lastScheduleTime")) == due:
            return
        policy = spec.get("concurrencyPolicy")
        if policy == "Forbid" and active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.events.record(owner, "Normal", "JobAlreadyActive", "", text)
            return
        if policy == "Replace":
            for reference in active:
                await self._delete(owner, reference)
            status.pop("active", None)
            active = []
        job = await self._create(owner, name, due, zone)
        if job is not None:
            status["active"] = [*active, _reference(job)]
            status["lastScheduleTime"] = objects.format_time(due)

    def _schedule(self, owner: Object) -> tuple[Schedule, tzinfo | None] | None:
        """Return the schedule and its time zone; ``None`` if one is invalid, which is reported."""
        spec = owner["spec"]
        text, name = spec.get("schedule") or "", spec.get("timeZone")
        zone: tzinfo | None = None
        try:
            zone = UTC if name in (None, "", "UTC") else ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            problem = f"invalid timeZone: {quote(name)}: unknown time zone {name}"
            self.events.record(owner, "Warning", "UnknownTimeZone", "", problem)
            return None
        try:
            return parse_schedule(text), zone
        except CronError as error:
            problem = f"unparseable schedule: {quote(text)} : {error}"
            self.events.record(owner, "Warning", "UnparseableSchedule", "", problem)
            return None

    def _due(self, owner: Object, schedule: Schedule, zone: tzinfo | None, now: datetime) -> datetime | None:
        """Return the latest time of the schedule that has passed without a Job."""
        earliest = parse_time(dig(owner, ("status", "lastScheduleTime")))
        earliest = earliest or parse_time(owner["metadata"].get("creationTimestamp")) or now
        deadline = owner["spec"].get("startingDeadlineSeconds")
        if deadline is not None:
            earliest = max(earliest, now - timedelta(seconds=deadline))
        first = schedule.next(earliest.astimezone(UTC), zone)
        if first is None or first > now:
            return None
        second = schedule.next(first, zone)
        if second is None or second > now:
            return first
        interval = max(1, round((second - first).total_seconds()))
        missed = int((now - first).total_seconds()) // interval + 1
        latest = first
        time = schedule.next(first + timedelta(seconds=max(0, missed - 2) * interval), zone)
        while time is not None and time <= now:
            latest, time = time, schedule.next(time, zone)
        if missed > _MANY:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.events.record(owner, "Warning", "TooManyMissedTimes", "", text)
        return latest

    async def _create(self, owner: Object, name: str, due: datetime, zone: tzinfo | None) -> Object | None:
        """Create the Job for the time *due*; return ``None`` if another object has its name.

        :raises ApiError: it is rejected.
        """
        template = owner["spec"].get("jobTemplate") or {}
        metadata = template.get("metadata") or {}
        local = due.astimezone(zone or UTC)
        shown = objects.format_time(due) if local.utcoffset() == timedelta(0) else local.isoformat(timespec="seconds")
        job: Object = {
            "metadata": {
                "name": name,
                "namespace": owner["metadata"]["namespace"],
                "labels": metadata.get("labels") or {},
                "annotations": {**(metadata.get("annotations") or {}), self._scheduled_annotation: shown},
                "ownerReferences": [controller_ref(owner)],
            },
            "spec": objects.clone(template.get("spec") or {}),
        }
        try:
            created = await self.writer.create(self._jobs, job)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return next((job for job in self._read(owner) if job["metadata"]["name"] == name), None)
            if not is_terminating(error):
                self.events.record(owner, "Warning", "FailedCreate", "", f"Error creating job: {error.message}")
            raise
        self.events.record(owner, "Normal", "SuccessfulCreate", "", f"Created job {name}")
        return created

    async def _delete_history(self, owner: Object, jobs: list[Object]) -> None:
        """Delete the oldest finished Jobs beyond the limits of the history."""
        for kind, name in ((True, "successfulJobsHistoryLimit"), (False, "failedJobsHistoryLimit")):
            limit = owner["spec"].get(name)
            done = [
                job
                for job in jobs
                if (found := finished_condition(job)) is not None and (found["type"] == COMPLETE) == kind
            ]
            done.sort(key=lambda job: (dig(job, ("status", "startTime")) or "", job["metadata"]["name"]))
            for job in done[: max(0, len(done) - limit)] if limit is not None else ():
                await self._delete(owner, job["metadata"])
                jobs.remove(job)

    async def _delete(self, owner: Object, metadata: Object) -> None:
        name = metadata["name"]
        namespace = owner["metadata"]["namespace"]
        try:
            target = {"name": name, "namespace": namespace, "uid": metadata.get("uid")}
            await self.writer.delete(self._jobs, target)
        except ApiError as error:
            self.events.record(owner, "Warning", "FailedDelete", "", f"Deleted job: {error.message}")
            raise
        self.events.record(owner, "Normal", "SuccessfulDelete", "", f"Deleted job {name}")

    async def _write_status(self, owner: Object, status: Object) -> None:
        if status == (owner.get("status") or {}):
            return

        def edit(obj: Object) -> None:
            obj["status"] = status

        await self.writer.change(self.owner, owner, edit)

    def _again(self, owner: Object, seconds: float) -> None:
        self.queue.add_after(self.owner.key(owner["metadata"]["namespace"], owner["metadata"]["name"]), seconds)


def _reference(job: Object) -> Object:
    reference = {name: job["metadata"][name] for name in ("namespace", "name", "uid", "resourceVersion")}
    return reference | {"kind": "Job", "apiVersion": "batch/v1"}
