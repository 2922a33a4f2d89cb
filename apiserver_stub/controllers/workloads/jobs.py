"""Job controller: runs pods until a number of them has succeeded, and counts each terminated pod once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from msgspec import field

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.plugin import ControllerContext
from apiserver_stub.controllers.views import OwnerView, PodView, View
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.controllers.workloads import conditions
from apiserver_stub.controllers.workloads import job_progress as progress
from apiserver_stub.controllers.workloads.job_progress import JobNames
from apiserver_stub.controllers.workloads.owner_controller import OwnerController
from apiserver_stub.controllers.workloads.owners import Claims
from apiserver_stub.controllers.workloads.pod_writer import MAX_PODS, PodWriter, is_terminating, pod_of
from nodeagent.base.aio import Backoff
from nodeagent.base.structs import MutableStruct

_JOBS, _PODS = "batch/jobs", "core/pods"
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 10.0, 600.0


class _Failures(MutableStruct):
    """Failures of a Job since its last succeeded pod."""

    backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS, jitter=0.0))
    resume_at: float = 0.0
    """Monotonic time at which the next pod may be created."""


class _Pass(MutableStruct):
    """State of one pass over a Job."""

    job: Object
    pods: list[Object]
    status: Object
    now: datetime
    succeeded: int = 0
    failed: int = 0
    done: set[int] = field(default_factory=set)
    failed_indexes: set[int] = field(default_factory=set)
    finish: Object | None = None
    """Condition with which the Job ends."""

    @property
    def active(self) -> list[Object]:
        return [pod for pod in self.pods if progress.active(pod)]

    @property
    def terminating(self) -> int:
        """Number of pods that are being deleted and have not terminated."""
        return sum(map(progress.terminating, self.pods))

    @property
    def indexed(self) -> bool:
        return bool(self.job["spec"].get("completionMode") == progress.INDEXED)


class Jobs(OwnerController):
    """Jobs.

    A terminated pod keeps a finalizer until its UID is stored in the status of the Job, and is counted after the
    finalizer was removed, so that no pod is counted twice or not at all.
    """

    name, alias, kind = "job-controller", "job", "Job"
    owners = ("batch", "v1", "jobs")
    dependents = (_PODS,)
    resources = ("jobs.batch",)
    views: ClassVar[Mapping[str, type[View]]] = {_JOBS: OwnerView, _PODS: PodView}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = PodWriter(self.writer, self.events)
        self._claims = Claims(context.index, self.writer, self._pods.resource)
        self._names = JobNames.of(context.identity)
        self._index_label = self._names.index
        self._failures: dict[str, _Failures] = {}
        self._released: WorkQueue[str] = WorkQueue("job-pods", context.clock)
        context.index.listen(_PODS, self._pod_changed)
        context.index.listen(_JOBS, self._job_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            group.create_task(self._released.run(self._release))

    def _job_changed(self, before: View | None, after: View | None) -> None:
        if after is None and before is not None:
            self._failures.pop(before.metadata.uid, None)
            for pod in self.context.index.owned(_PODS, before.metadata.uid):
                self._released.add(pod.key)

    def _pod_changed(self, before: View | None, after: View | None) -> None:
        """Queue a pod with the finalizer whose Job does not exist."""
        if after is None or self._names.tracking not in (after.metadata.finalizers or ()):
            return
        if not self._has_job(after):
            self._released.add_after(after.key, 1.0)  # The Job may not have been delivered yet.

    async def _release(self, key: str) -> None:
        await self.context.leadership.acquired()
        await self.context.index.catch_up()
        pod = self.context.index.get(_PODS, key)
        if pod is not None and not self._has_job(pod):
            await self._drop_finalizer({"metadata": {**_identity(pod)}})

    def _has_job(self, pod: View) -> bool:
        owner = pod.controller
        if owner is None:
            return False
        job = self.context.index.get(_JOBS, f"{pod.metadata.namespace}/{owner.name}")
        return job is not None and job.metadata.uid == owner.uid

    async def sync(self, owner: Object) -> None:
        spec = owner["spec"]
        selector = self.selector_of(spec)
        if selector is None or spec.get("managedBy") not in (None, self._managed_by):
            return
        if progress.finished_condition(owner) is not None:
            self._failures.pop(owner["metadata"]["uid"], None)
            await self._drop_finalizers(owner)
            return
        views = await self._claims.claim(owner, selector)
        if "deletionTimestamp" in owner["metadata"]:
            await self._drop_finalizers(owner)
            return
        run = _Pass(owner, self._read(views), dict(owner.get("status") or {}), self.context.clock.wall())
        await self._count(run)
        if run.status.get("startTime") is None and not spec.get("suspend"):
            run.status["startTime"] = _time(run.now)
        self._decide(run)
        failure: ApiError | None = None
        try:
            await self._manage(run)
        except ApiError as error:
            failure = None if is_terminating(error) else error
        await self._write_status(run)
        if failure is not None:
            raise failure

    @property
    def _has_success_policy(self) -> bool:
        """``True`` in releases in which a Job meets its success criteria before it is complete."""
        return self.context.gates.enabled("JobSuccessPolicy")

    @property
    def _managed_by(self) -> str:
        return f"{self.context.identity.label_domain}/job-controller"

    def _read(self, views: Sequence[View]) -> list[Object]:
        collection, resource = self.context.verbs.store.collection(_PODS), self._pods.resource
        return [resource.read(record) for view in views if (record := collection.get(view.key)) is not None]

    async def _count(self, run: _Pass) -> None:
        """Count the pods that have terminated since the last pass."""
        uncounted = {
            name: list(((run.status.get("uncountedTerminatedPods") or {}).get(name)) or ())
            for name in ("succeeded", "failed")
        }
        known = {uid for uids in uncounted.values() for uid in uids}
        due: list[Object] = []
        new_failures = 0
        for pod in run.pods:
            metadata = pod["metadata"]
            tracked = self._names.tracking in (metadata.get("finalizers") or ())
            if not tracked:
                continue
            if metadata["uid"] in known:
                due.append(pod)
            elif progress.succeeded(pod):
                uncounted["succeeded"].append(metadata["uid"])
                due.append(pod)
            elif progress.failed(pod, run.job):
                due.append(pod)
                if progress.action_for(run.job, pod)[0] != "Ignore":
                    uncounted["failed"].append(metadata["uid"])
                    new_failures += 1
        self._count_indexes(run, due)
        self._record(run, new_failures, bool(uncounted["succeeded"]))
        if due:
            lists = {name: uids for name, uids in uncounted.items() if uids}
            indexes = self._index_fields(run)

            def edit(obj: Object) -> None:
                obj["status"] = {**(obj.get("status") or {}), **indexes, "uncountedTerminatedPods": lists}

            await self.writer.change(self.owner, run.job, edit)
            for pod in due:
                await self._drop_finalizer(pod)
        run.succeeded = (run.status.get("succeeded") or 0) + len(uncounted["succeeded"])
        run.failed = (run.status.get("failed") or 0) + len(uncounted["failed"])
        if run.indexed:
            run.succeeded = len(run.done)

    def _count_indexes(self, run: _Pass, due: Sequence[Object]) -> None:
        if not run.indexed:
            return
        spec = run.job["spec"]
        completions = spec.get("completions") or 0
        run.done = progress.parse_indexes(run.status.get("completedIndexes"), completions)
        run.failed_indexes = progress.parse_indexes(run.status.get("failedIndexes"), completions)
        limit = spec.get("backoffLimitPerIndex")
        for pod in due:
            index = progress.index_of(pod, self._names)
            if index is None or index >= completions:
                continue
            if progress.succeeded(pod):
                run.done.add(index)
            elif limit is not None:
                action, _ = progress.action_for(run.job, pod)
                exceeded = progress.failures_of(pod, self._names) >= limit
                if action == "FailIndex" or (exceeded and action != "Ignore"):
                    run.failed_indexes.add(index)
        run.failed_indexes -= run.done

    def _index_fields(self, run: _Pass) -> Object:
        if not run.indexed:
            return {}
        found: Object = {"completedIndexes": progress.format_indexes(run.done)} if run.done else {}
        if run.job["spec"].get("backoffLimitPerIndex") is not None:
            found["failedIndexes"] = progress.format_indexes(run.failed_indexes)
        return found

    def _record(self, run: _Pass, new_failures: int, any_succeeded: bool) -> None:
        uid = run.job["metadata"]["uid"]
        if any_succeeded and not new_failures:
            self._failures.pop(uid, None)
        if new_failures:
            record = self._failures.setdefault(uid, _Failures())
            pause = 0.0
            for _ in range(new_failures):
                pause = record.backoff.next()
            record.resume_at = self.context.clock.now() + pause

    def _decide(self, run: _Pass) -> None:
        """Decide whether the Job has failed."""
        job, spec, now = run.job, run.job["spec"], run.now
        target = conditions.find(run.status.get("conditions"), progress.FAILURE_TARGET)
        if target is not None:
            text = target.get("message") or ""
            run.finish = progress.condition(progress.FAILED, "True", target.get("reason") or "", text, now)
            return
        for pod in run.pods:
            if progress.failed(pod, job):
                action, message = progress.action_for(job, pod)
                if action == "FailJob":
                    run.finish = progress.condition(progress.FAILED, "True", "PodFailurePolicy", message, now)
                    return
        reason, text = "", ""
        left = progress.seconds_left(job, run.status.get("startTime"), now)
        completions = spec.get("completions") or 0
        most = spec.get("maxFailedIndexes")
        if run.failed > (spec.get("backoffLimit") or 0) or progress.exceeds_restarts(job, run.pods):
            reason, text = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        elif left is not None and left <= 0:
            reason, text = "DeadlineExceeded", "Job was active longer than specified deadline"
        elif most is not None and len(run.failed_indexes) > most:
            reason = "MaxFailedIndexesExceeded"
            text = "Job has exceeded the specified maximal number of failed indexes"
        elif run.failed_indexes and len(run.failed_indexes) + len(run.done) >= completions:
            reason, text = "FailedIndexes", "Job has failed indexes"
        if reason:
            run.finish = progress.condition(progress.FAILED, "True", reason, text, now)
            return
        if self._has_success_policy and run.indexed and (text := progress.matching_success_rule(job, run.done)):
            run.finish = progress.condition(progress.COMPLETE, "True", "SuccessPolicy", text, now)
        elif left is not None:
            self._again(run.job, left + 0.1)

    async def _manage(self, run: _Pass) -> None:
        """Create missing pods and delete surplus ones, or all pods of a Job that has failed.

        :raises ApiError: a pod cannot be created or deleted.
        """
        spec, job = run.job["spec"], run.job
        active = run.active
        if run.finish is not None or spec.get("suspend"):
            for pod in active[:MAX_PODS]:
                await self._delete(run, pod)
            self._set_suspended(run)
            return
        completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
        if completions is None:
            desired = len(active) if run.succeeded else parallelism
            complete = run.succeeded > 0 and not active
        else:
            desired = min(parallelism, completions - run.succeeded - len(run.failed_indexes))
            complete = run.succeeded >= completions and not active
        if complete:
            reason, text = "", ""
            if self._has_success_policy:
                reason, text = "CompletionsReached", "Reached expected number of succeeded pods"
            run.finish = progress.condition(progress.COMPLETE, "True", reason, text, run.now)
            return
        self._set_suspended(run)
        for pod in self._surplus(run, len(active) - max(desired, 0))[:MAX_PODS]:
            await self._delete(run, pod)
        missing = desired - len(active)
        if spec.get("podReplacementPolicy") == "Failed":
            missing -= run.terminating
        if missing <= 0:
            return
        record = self._failures.get(job["metadata"]["uid"])
        pause = record.resume_at - self.context.clock.now() if record is not None else 0.0
        if pause > 0:
            self._again(job, pause)
            return
        created = [self._pod(run, index) for index in self._next_indexes(run, min(missing, MAX_PODS))]
        for pod in created:
            run.pods.append(await self._pods.create(job, pod))

    def _surplus(self, run: _Pass, count: int) -> list[Object]:
        """Return the active pods to delete: those of no or a repeated index, and in all at least *count*."""
        ranked = sorted(run.active, key=lambda pod: pod["metadata"].get("creationTimestamp", ""), reverse=True)
        ranked.sort(key=progress.ready)
        if not run.indexed:
            return ranked[: max(0, count)]
        unusable, retained = list[Object](), dict[int, Object]()
        completions = run.job["spec"].get("completions") or 0
        for pod in reversed(ranked):
            index = progress.index_of(pod, self._names)
            if index is None or index >= completions or index in retained:
                unusable.append(pod)
            else:
                retained[index] = pod
        return unusable + [*reversed(retained.values())][: max(0, count - len(unusable))]

    def _next_indexes(self, run: _Pass, count: int) -> list[int | None]:
        """Return the indexes of the next *count* pods, ``None`` for each of a Job without indexes."""
        if not run.indexed:
            return [None] * count
        used = {progress.index_of(pod, self._names) for pod in run.active} | run.done | run.failed_indexes
        found: list[int | None] = []
        for index in range(run.job["spec"].get("completions") or 0):
            if len(found) == count:
                break
            if index not in used:
                found.append(index)
        return found

    def _pod(self, run: _Pass, index: int | None) -> Object:
        job = run.job
        pod = pod_of(job, job["spec"].get("template") or {})
        metadata, spec, names = pod["metadata"], pod["spec"], self._names
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), names.tracking]
        if index is None:
            return pod
        name = job["metadata"]["name"]
        metadata["generateName"] = f"{name}-{index}-"
        metadata["labels"] = {**(metadata.get("labels") or {}), names.index: str(index)}
        annotations = {**(metadata.get("annotations") or {}), names.index: str(index)}
        if job["spec"].get("backoffLimitPerIndex") is not None:
            earlier = [pod for pod in run.pods if progress.index_of(pod, names) == index]
            counts = [progress.failures_of(pod, names) + 1 for pod in earlier if progress.failed(pod, job)]
            annotations[names.failures] = str(max(counts, default=0))
        metadata["annotations"] = annotations
        spec["hostname"] = f"{name}-{index}"
        variable = {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{names.index}']"}},
        }
        for kind in ("initContainers", "containers"):
            for container in spec.get(kind) or ():
                if not any(item.get("name") == variable["name"] for item in container.get("env") or ()):
                    container["env"] = [*(container.get("env") or ()), variable]
        return pod

    def _set_suspended(self, run: _Pass) -> None:
        """Set the condition Suspended; the deadline of a resumed Job starts again."""
        if run.finish is not None:
            return
        suspended = bool(run.job["spec"].get("suspend"))
        known = conditions.find(run.status.get("conditions"), progress.SUSPENDED)
        if (known is None and not suspended) or (known is not None and (known["status"] == "True") == suspended):
            return
        verb = "suspended" if suspended else "resumed"
        reason, text = f"Job{verb.capitalize()}", f"Job {verb}"
        new = progress.condition(progress.SUSPENDED, "True" if suspended else "False", reason, text, run.now)
        run.status["conditions"] = [*conditions.without(run.status.get("conditions"), progress.SUSPENDED), new]
        self.events.record(run.job, "Normal", verb.capitalize(), "", text)
        if suspended:
            run.status.pop("startTime", None)
        else:
            run.status["startTime"] = _time(run.now)

    async def _delete(self, run: _Pass, pod: Object) -> None:
        view = self.context.index.get(_PODS, self._pods.resource.key(*_key(pod)))
        if view is not None:
            await self._pods.delete(run.job, view)
            pod["metadata"]["deletionTimestamp"] = _time(run.now)
        await self.context.index.catch_up()

    async def _write_status(self, run: _Pass) -> None:
        active = run.active
        counts = {"active": len(active), "succeeded": run.succeeded, "failed": run.failed}
        status: Object = {name: value for name, value in run.status.items() if name not in counts}
        status |= {name: count for name, count in counts.items() if count}
        status |= {"ready": sum(map(progress.ready, active)), **self._index_fields(run)}
        if self.context.gates.enabled("JobPodReplacementPolicy"):
            status["terminating"] = run.terminating
        status["uncountedTerminatedPods"] = {}
        if run.finish is not None and not active:
            met = {**run.finish, "type": progress.SUCCESS_CRITERIA}
            is_complete = run.finish["type"] == progress.COMPLETE
            added = [met] if is_complete and self._has_success_policy else []
            status["conditions"] = [*(status.get("conditions") or ()), *added, run.finish]
            if run.finish["type"] == progress.COMPLETE:
                status["completionTime"] = _time(run.now)
                self.events.record(run.job, "Normal", "Completed", "", "Job completed")
            else:
                self.events.record(run.job, "Warning", run.finish["reason"], "", run.finish["message"])
        if status == run.job.get("status"):
            return

        def edit(obj: Object) -> None:
            obj["status"] = status

        await self.writer.change(self.owner, run.job, edit)

    async def _drop_finalizers(self, job: Object) -> None:
        for pod in self.context.index.owned(_PODS, job["metadata"]["uid"]):
            if self._names.tracking in (pod.metadata.finalizers or ()):
                await self._drop_finalizer({"metadata": _identity(pod)})

    async def _drop_finalizer(self, pod: Object) -> None:
        def edit(obj: Object) -> None:
            left = [name for name in obj["metadata"].get("finalizers") or () if name != self._names.tracking]
            if left:
                obj["metadata"]["finalizers"] = left
            else:
                obj["metadata"].pop("finalizers", None)

        await self.writer.change(self._pods.resource, pod, edit)

    def _again(self, job: Object, seconds: float) -> None:
        self.queue.add_after(self.owner.key(job["metadata"]["namespace"], job["metadata"]["name"]), seconds)


def _identity(pod: View) -> Object:
    metadata = pod.metadata
    return {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}


def _key(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _time(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
