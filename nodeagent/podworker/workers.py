"""Pod workers of the node: apply the changes of sources, admit pods and implement the pod directory."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from nodeagent.allocation.metrics import count_requested
from nodeagent.base.aio import TaskOwner
from nodeagent.base.logging import v_level, verbose
from nodeagent.contracts.events import EventType
from nodeagent.contracts.pods import KillReason, Rejection
from nodeagent.contracts.runtime import RuntimePod
from nodeagent.model.meta import ObjectMeta
from nodeagent.model.pod import Pod, PodSpec, PodStatus
from nodeagent.podworker.admission import AdmissionPending, PodAdmission
from nodeagent.podworker.desired import Change, ChangeKind, DesiredPods, is_mirror, is_static
from nodeagent.podworker.metrics import ORPHANS, RESTARTED, WORKING, count_rejection
from nodeagent.podworker.resizing import POD_TERMINATED, POD_UPDATED, PODS_ADDED, PODS_REMOVED, PodResizer, RetryResizes
from nodeagent.podworker.state import Phase, Termination, WorkerSnapshot, requested_termination
from nodeagent.podworker.worker import PodWorker, WorkerComponents

_log = logging.getLogger(__name__)

_QUICK_SYNC_SECONDS = 5.0
"""Time after which what a sync has created is observed before the sync ends, for example during an image pull."""
_LIFECYCLES = {Phase.SYNC: "sync", Phase.TERMINATING: "terminating", Phase.TERMINATED: "terminated"}
_SYNC_MESSAGES = {
    ChangeKind.ADDED: "SyncLoop ADD",
    ChangeKind.UPDATED: "SyncLoop UPDATE",
    ChangeKind.STATUS: "SyncLoop RECONCILE",
    ChangeKind.REMOVED: "SyncLoop REMOVE",
}
_ADMISSION, _PREDECESSOR = _RETRIES = ("admission", "queue")
"""Sources of changes that add a queued pod again, in its version at that time."""
MirrorListener = Callable[[ChangeKind, Pod], None]


class PodWorkers:
    """Runs one worker per pod UID; implements ``context.pods`` (:class:`~nodeagent.contracts.pods.PodDirectory`).

    Static pods with the same full name run one at a time; the next one waits until the previous one has terminated.
    """

    def __init__(
        self, desired: DesiredPods, components: Callable[[], WorkerComponents], mirror: MirrorListener
    ) -> None:
        self._desired, self._make_components, self._mirror = desired, components, mirror
        self._components: WorkerComponents | None = None
        self._resizer: PodResizer | None = None
        self._admission: PodAdmission | None = None
        self._workers: dict[str, PodWorker] = {}
        self._static: dict[str, PodWorker] = {}
        """The workers of static and orphaned pods."""
        self._rejected: dict[str, Pod] = {}
        self._queued: dict[str, Pod] = {}
        self._terminations: dict[str, Termination] = {}
        """Terminations of pods that are neither admitted nor rejected yet."""
        self._changes: asyncio.Queue[Change | RetryResizes] = asyncio.Queue()
        self._waiting: Counter[str] = Counter()
        """Number of queued changes by UID of the pod, with the one that is being applied."""
        self._tasks = TaskOwner("pods", close_seconds=10)

    # --- sources --------------------------------------------------------------------------------------------

    def expect(self, sources: Iterable[str]) -> None:
        """Add sources that are pending until they publish."""
        self._desired.expect(sources)

    def publish(self, source: str, pods: Sequence[Pod]) -> None:
        """Apply the changes of a source's new set of pods to their workers, or queue them.

        A change of a pod that has a worker does not wait for the admission of other pods, which may take long.
        """
        changes = self._desired.publish(source, pods)
        _log_changes(source, changes)
        for change in changes:
            worker = self._workers.get(change.pod.uid)
            immediate = worker is not None and not self._waiting[change.pod.uid] and not is_mirror(change.pod)
            if immediate and change.kind not in (ChangeKind.ADDED, ChangeKind.DUPLICATE):
                with _logged_failure(change):
                    self._change(change, worker)
            else:
                self._queue(change)

    async def run(self) -> None:
        """Apply changes one after the other until cancelled; pods keep running afterwards."""
        self._components = components = self._make_components()
        self._resizer = PodResizer(components.allocations, self._changes.put_nowait, components.clock)
        self._admission = PodAdmission(
            components.plugins, lambda: self._need().recorder, components.clock, self._tasks, self._admission_due
        )
        if components.allocations.resizing:
            self._tasks.start(self._resizer.run(), "resize retries")
        WORKING.sample = self._count
        try:
            while True:
                change = await self._changes.get()
                if isinstance(change, RetryResizes):
                    await self._resizer.retry(change.trigger, self._workers, self._desired, self._admit)
                    continue
                try:
                    with _logged_failure(change):
                        await self._apply(change)
                finally:
                    self._waiting[change.pod.uid] -= 1
                    if not self._waiting[change.pod.uid]:
                        del self._waiting[change.pod.uid]
        finally:
            await self._tasks.close()

    @property
    def all_sources_ready(self) -> bool:
        """True if every source has published its pods."""
        return self._desired.complete

    # --- PodDirectory ---------------------------------------------------------------------------------------

    def all(self) -> Sequence[Pod]:
        return self._desired.pods()

    def active(self) -> Sequence[Pod]:
        return [worker.pod for worker in self._workers.values() if worker.phase < Phase.TERMINATED and worker.desired]

    def static_pods(self) -> Sequence[Pod]:
        """Return the static pods to represent in the API: a predecessor that still runs, else the desired pod."""
        pods = {pod.full_name: pod for pod in self._desired.static_pods()}
        for worker in self._static.values():
            if worker.phase < Phase.TERMINATED and is_static(worker.pod):
                pods[worker.pod.full_name] = worker.pod
        return list(pods.values())

    def get(self, uid: str) -> Pod | None:
        worker = self._workers.get(uid)
        if worker is not None:
            return worker.pod
        pod = self._desired.get(uid)
        return None if pod is None or is_mirror(pod) else pod

    def status(self, uid: str) -> PodStatus | None:
        return self._components.status.get(uid) if self._components else None

    def reported_status(self, uid: str) -> PodStatus | None:
        pod = self.get(uid)
        return self._components.status.reported(pod) if self._components is not None and pod is not None else None

    def observed(self, uid: str) -> RuntimePod | None:
        return self._components.observer.get(uid) if self._components else None

    def snapshot(self, uid: str) -> WorkerSnapshot | None:
        """Return the state of the pod's worker; ``None`` if it has none, for example because the pod was rejected."""
        worker = self._workers.get(uid)
        if worker is not None:
            return worker.snapshot()
        if uid not in self._queued or (self._admission is not None and self._admission.is_pending(uid)):
            return None
        return WorkerSnapshot(phase=Phase.SYNC, queued=True)

    def is_syncing(self, uid: str) -> bool:
        """Return whether the pod's worker has started a sync within the last seconds."""
        worker = self._workers.get(uid)
        return worker is not None and worker.is_syncing(_QUICK_SYNC_SECONDS)

    def admission_problem(self, uid: str) -> str:
        """Return the reason why a plugin is consulted again about the pod, empty if there is none."""
        return "" if self._admission is None else self._admission.problem(uid)

    @property
    def pending_sources(self) -> Sequence[str]:
        """The sources that have not published yet."""
        return self._desired.pending

    def trigger_sync(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()

    def wake_all(self) -> None:
        """Request a sync of every pod, for example after the runtime has recovered."""
        for worker in self._workers.values():
            worker.wake()

    def kill(
        self, uid: str, reason: KillReason, message: str, *, status_reason: str = "", grace_seconds: int | None = None
    ) -> None:
        termination = Termination(reason, message, status_reason, grace_seconds)
        if (worker := self._workers.get(uid)) is not None:
            worker.terminate(termination)
        elif self._desired.contains(uid) and uid not in self._rejected:
            self._terminations[uid] = termination  # A plugin that does not respond must not delay it.
            if self._admission is not None:
                self._admission.forget(uid)
            self._admission_due(uid)

    # --- orphans --------------------------------------------------------------------------------------------

    def terminate_orphans(self, observed: Iterable[RuntimePod]) -> None:
        """Terminate pods that run but are not desired; does nothing until every source has published."""
        if not self._desired.complete or self._components is None:
            return
        for runtime_pod in observed:
            uid = runtime_pod.uid
            if uid in self._workers or self._desired.contains(uid) or not uid:
                continue
            ORPHANS.inc()
            worker = self._start(_orphan(runtime_pod), static=True)
            worker.desired = False
            worker.terminate(Termination(KillReason.ORPHANED))

    def is_known(self, uid: str) -> bool:
        """Return whether a pod is desired or still has a worker."""
        return uid in self._workers or self._desired.contains(uid)

    # --- helpers --------------------------------------------------------------------------------------------

    def _queue(self, change: Change) -> None:
        self._waiting[change.pod.uid] += 1
        self._changes.put_nowait(change)

    async def _apply(self, change: Change) -> None:
        pod = change.pod
        if change.kind is ChangeKind.DUPLICATE:
            self._report_duplicate(pod, change.source)
            return
        if is_mirror(pod):
            self._mirror(change.kind, pod)
            return
        worker = self._workers.get(pod.uid)
        if change.kind is ChangeKind.ADDED:
            if change.source in _RETRIES:
                if (latest := self._queued.pop(pod.uid, None)) is None:
                    return  # It was removed in the meantime.
                pod = latest
            await self._add(pod, worker)
        else:
            self._change(change, worker)

    def _change(self, change: Change, worker: PodWorker | None) -> None:
        """Apply the update or the removal of a pod."""
        pod = change.pod
        match change.kind:
            case ChangeKind.UPDATED | ChangeKind.STATUS:
                if worker is not None:
                    self._update(worker, change)
                elif pod.uid in self._rejected:
                    self._rejected[pod.uid] = pod
                    self._finish_rejected(pod)
                elif pod.uid in self._queued:
                    self._queued[pod.uid] = pod
                    if requested_termination(pod) is not None and self._need_admission().is_pending(pod.uid):
                        self._need_admission().forget(pod.uid)
                        self._admission_due(pod.uid)
            case ChangeKind.REMOVED:
                self._queued.pop(pod.uid, None)
                self._terminations.pop(pod.uid, None)
                self._need_admission().forget(pod.uid)
                if self._rejected.pop(pod.uid, None) is not None:
                    self._need().status.forget(pod.uid)
                    self._need().allocations.forget(pod.uid)
                if worker is not None:
                    worker.recreated = False
                    worker.release()

    async def _add(self, pod: Pod, worker: PodWorker | None) -> None:
        if worker is not None or self._name_in_use(pod):
            self._queued[pod.uid] = pod  # Starts once its predecessor has terminated.
            if worker is not None:
                worker.recreated = True
            return
        components = self._need()
        desired, pod = pod, await components.allocations.restore(pod)
        termination = self._terminations.pop(pod.uid, None)
        if pod.terminal or requested_termination(pod) is not None:
            self._start(pod)
            return
        if termination is not None:
            self._start(pod).terminate(termination)
            return
        try:
            rejection = await self._need_admission().decide(pod, self.active())
        except AdmissionPending:
            self._queued[pod.uid] = desired
            return
        if rejection is not None:
            plugin = self._need_admission().rejected_by(pod)
            _log.info(
                "Failed to admit pod",
                extra={
                    "pod": pod.full_name,
                    "podUID": pod.uid,
                    "reason": rejection.reason,
                    "detail": rejection.message,
                    "plugin": plugin,
                },
            )
            note = f"{rejection.message} (plugin {plugin})" if plugin else rejection.message
            components.recorder.record(pod.reference(), EventType.WARNING, rejection.reason, note)
            count_rejection(rejection.reason)
            message = f"Pod was rejected: {rejection.message}"
            observer = components.observer
            if observer.get(pod.uid) is not None or not observer.is_known(pod.uid):
                # It was admitted before a restart of the agent: its containers must be stopped.
                self._start(pod).terminate(Termination(KillReason.FINISHED, message, rejection.reason))
                return
            self._rejected[pod.uid] = pod
            components.status.update(pod, None, ended=True, failed=(rejection.reason, message))
            self._finish_rejected(pod)
            return
        await components.allocations.allocate(pod)
        components.allocations.request(desired)
        self._start(pod)
        self._need_resizer().request(PODS_ADDED)
        await components.plugins.notify("nodeagent_pod_admitted", pod=pod)

    def _update(self, worker: PodWorker, change: Change) -> None:
        """Pass a changed pod to its worker, with the resources that it was granted."""
        allocations, pod = self._need().allocations, change.pod
        allocated = allocations.allocated(pod)
        if change.kind is not ChangeKind.UPDATED:
            worker.show(allocated)
            return
        worker.update(allocated)
        if change.before is not None and allocations.resizing:
            count_requested(change.before, pod)
        if worker.phase is Phase.SYNC and allocations.request(pod):
            self._need_resizer().request(POD_UPDATED)

    async def _admit(self, pod: Pod) -> Rejection | None:
        """Decide on the new resources of an admitted pod."""
        return await self._need_admission().decide_resize(pod, self.active())

    def _admission_due(self, uid: str) -> None:
        """Add a pod again whose admission was pending."""
        if (pod := self._queued.get(uid)) is not None:
            self._queue(Change(ChangeKind.ADDED, pod, _ADMISSION))

    def _report_duplicate(self, pod: Pod, source: str) -> None:
        """Report a pod that is ignored because another pod has the same name."""
        where = f"{pod.name}_{pod.namespace}({pod.uid})"
        note = f'Error validating pod {where} from {source} due to duplicate pod name "{pod.name}", ignoring'
        _log.info(
            "Pod failed validation due to duplicate pod name, ignoring",
            extra={"pod": pod.full_name, "podUID": pod.uid, "source": source},
        )
        self._need().recorder.record(pod.reference(), EventType.WARNING, "FailedValidation", note)

    def _finish_rejected(self, pod: Pod) -> None:
        if requested_termination(pod) is not None:
            self._need().status.terminated(pod)

    def _name_in_use(self, pod: Pod) -> bool:
        return is_static(pod) and any(worker.pod.full_name == pod.full_name for worker in self._static.values())

    def _start(self, pod: Pod, *, static: bool | None = None) -> PodWorker:
        worker = PodWorker(pod, self._need(), static=is_static(pod) if static is None else static)
        if (termination := requested_termination(pod)) is not None:
            worker.terminate(termination)
        self._workers[pod.uid] = worker
        if worker.static:
            self._static[pod.uid] = worker
        self._tasks.start(worker.run(), pod.full_name)
        return worker

    def finished(self, worker: PodWorker) -> None:
        """Drop the worker of a removed pod and start the pods that waited for it."""
        pod = worker.pod
        self._workers.pop(pod.uid, None)
        self._static.pop(pod.uid, None)
        self._need().status.forget(pod.uid)
        self._need().allocations.forget(pod.uid)
        self._need_resizer().request(PODS_REMOVED)
        for uid, waiting in self._queued.items():
            if uid == pod.uid or waiting.full_name == pod.full_name:
                if uid == pod.uid:
                    RESTARTED.inc("true" if is_static(pod) else "")
                self._queue(Change(ChangeKind.ADDED, waiting, _PREDECESSOR))

    def ended(self) -> None:
        """Retry pending resizes after a pod has terminated."""
        self._need_resizer().request(POD_TERMINATED)

    def _count(self) -> Mapping[tuple[str, ...], int]:
        """Return the number of pods per lifecycle phase, configuration and static flag, including zeros."""
        counts: dict[tuple[str, ...], int] = dict.fromkeys(
            itertools.product(_LIFECYCLES.values(), ("desired", "orphan"), ("", "true")), 0
        )
        counts |= dict.fromkeys(itertools.product(_LIFECYCLES.values(), ("runtime_only",), ("unknown",)), 0)
        for worker in self._workers.values():
            if worker.termination is not None and worker.termination.reason is KillReason.ORPHANED:
                kind, static = "runtime_only", "unknown"
            else:
                kind, static = "desired" if worker.desired else "orphan", "true" if worker.static else ""
            if lifecycle := _LIFECYCLES.get(worker.phase):
                counts[lifecycle, kind, static] += 1
        return counts

    def _need_admission(self) -> PodAdmission:
        assert self._admission is not None, "run() has not started"
        return self._admission

    def _need_resizer(self) -> PodResizer:
        assert self._resizer is not None, "run() has not started"
        return self._resizer

    def _need(self) -> WorkerComponents:
        assert self._components is not None, "run() has not started"
        return self._components


@contextmanager
def _logged_failure(change: Change) -> Iterator[None]:
    """Log an error of the block, so that it affects only this change."""
    try:
        yield
    except Exception:
        _log.exception("Failed to apply pod change", extra={"pod": change.pod.full_name, "change": change.kind.value})


def _log_changes(source: str, changes: Sequence[Change]) -> None:
    """Log the changes of one publication as the kubelet's sync loop does, one line per operation."""
    if not verbose(_log, 2):
        return
    pods: dict[str, list[str]] = {}
    for change in changes:
        if (message := _SYNC_MESSAGES.get(change.kind)) is None:
            continue
        if change.kind is ChangeKind.UPDATED and requested_termination(change.pod) is not None:
            message = "SyncLoop DELETE"
        pods.setdefault(message, []).append(change.pod.full_name)
    for message, names in pods.items():
        level = v_level(4 if message == "SyncLoop RECONCILE" else 2)
        _log.log(level, message, extra={"source": source, "pods": names})  # wording: ok


def _orphan(observed: RuntimePod) -> Pod:
    """Return a pod with the fields that are known from the runtime."""
    meta = ObjectMeta(name=observed.name, namespace=observed.namespace, uid=observed.uid)
    return Pod(metadata=meta, spec=PodSpec())
