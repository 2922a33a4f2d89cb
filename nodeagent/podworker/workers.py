"""All pod workers of the node: takes what sources publish, asks for admission, and answers questions about pods."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.events import EventType
from nodeagent.contracts.pods import KillReason, Rejection
from nodeagent.contracts.runtime import RuntimePod
from nodeagent.errors import PluginError
from nodeagent.model.meta import ObjectMeta
from nodeagent.model.pod import Pod, PodSpec, PodStatus
from nodeagent.podworker.desired import Change, ChangeKind, DesiredPods, is_mirror, is_static
from nodeagent.podworker.metrics import ORPHANS, RESTARTED, WORKING
from nodeagent.podworker.state import Phase, Termination, WorkerPicture, asked_to_end
from nodeagent.podworker.worker import PodWorker, WorkerParts

_log = logging.getLogger(__name__)

_LIFECYCLES = {Phase.SYNC: "sync", Phase.TERMINATING: "terminating", Phase.TERMINATED: "terminated"}
MirrorListener = Callable[[ChangeKind, Pod], None]


class PodWorkers:
    """Keeps one worker a pod UID; ``context.pods`` (:class:`~nodeagent.contracts.pods.PodDirectory`).

    Static pods of one full name run one at a time: the next waits until the one before has ended.
    """

    def __init__(self, desired: DesiredPods, parts: Callable[[], WorkerParts], mirror: MirrorListener) -> None:
        self._desired, self._make_parts, self._mirror = desired, parts, mirror
        self._parts: WorkerParts | None = None
        self._workers: dict[str, PodWorker] = {}
        self._rejected: dict[str, Pod] = {}
        self._queued: dict[str, Pod] = {}
        self._changes: asyncio.Queue[Change] = asyncio.Queue()
        self._tasks = TaskOwner("pods", close_seconds=10)

    # --- what sources do ------------------------------------------------------------------------------------

    def expect(self, sources: Iterable[str]) -> None:
        """Name the sources that will publish."""
        self._desired.expect(sources)

    def publish(self, source: str, pods: Sequence[Pod]) -> None:
        """Take the new set of a source."""
        for change in self._desired.publish(source, pods):
            self._changes.put_nowait(change)

    async def run(self) -> None:
        """Work on changes, one after the other, until cancelled; then leave all pods as they are."""
        self._parts = self._make_parts()
        WORKING.sample = self._count
        try:
            while True:
                change = await self._changes.get()
                try:
                    await self._apply(change)
                except Exception:
                    _log.exception(
                        "Change of a pod failed", extra={"pod": change.pod.full_name, "change": change.kind.value}
                    )
        finally:
            await self._tasks.close()

    @property
    def all_known(self) -> bool:
        """Whether every source has published its pods."""
        return self._desired.complete

    # --- PodDirectory ---------------------------------------------------------------------------------------

    def all(self) -> Sequence[Pod]:
        return self._desired.pods()

    def active(self) -> Sequence[Pod]:
        return [worker.pod for worker in self._workers.values() if worker.phase < Phase.TERMINATED and worker.wanted]

    def static_pods(self) -> Sequence[Pod]:
        """Return the static pods to show in the API: the wanted ones, and those that have not ended yet instead."""
        pods = {pod.full_name: pod for pod in self._desired.pods() if is_static(pod)}
        for worker in self._workers.values():
            if is_static(worker.pod) and worker.phase < Phase.TERMINATED:
                pods[worker.pod.full_name] = worker.pod
        return list(pods.values())

    def get(self, uid: str) -> Pod | None:
        worker = self._workers.get(uid)
        if worker is not None:
            return worker.pod
        return next((pod for pod in self._desired.pods() if pod.uid == uid), None)

    def status(self, uid: str) -> PodStatus | None:
        return self._parts.status.get(uid) if self._parts else None

    def observed(self, uid: str) -> RuntimePod | None:
        return self._parts.observer.get(uid) if self._parts else None

    def picture(self, uid: str) -> WorkerPicture | None:
        """Return what the pod's worker does now; ``None`` for a pod without one, such as a refused one."""
        worker = self._workers.get(uid)
        if worker is not None:
            return worker.picture()
        return WorkerPicture(phase=Phase.SYNC, queued=True) if uid in self._queued else None

    @property
    def unheard_sources(self) -> Sequence[str]:
        """The sources that have not told yet which pods they want."""
        return self._desired.unheard

    def trigger_sync(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()

    def wake_all(self) -> None:
        """Have every worker look again, such as after the runtime came back."""
        for worker in self._workers.values():
            worker.wake()

    def kill(
        self, uid: str, reason: KillReason, message: str, *, status_reason: str = "", grace_seconds: int | None = None
    ) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.terminate(Termination(reason, message, status_reason, grace_seconds))

    # --- orphans --------------------------------------------------------------------------------------------

    def end_orphans(self, observed: Iterable[RuntimePod]) -> None:
        """End what the runtime runs and nobody wants; does nothing until every source has published."""
        if not self._desired.complete or self._parts is None:
            return
        for runtime_pod in observed:
            uid = runtime_pod.uid
            if uid in self._workers or self._desired.wants(uid) or not uid:
                continue
            _log.info(
                "Pod is not wanted any more, ending it", extra={"pod": f"{runtime_pod.namespace}/{runtime_pod.name}"}
            )
            ORPHANS.inc()
            worker = self._start(_orphan(runtime_pod), static=True)
            worker.wanted = False
            worker.terminate(Termination(KillReason.ORPHANED))

    def known_uids(self) -> frozenset[str]:
        """Return the UIDs of pods that are wanted or still have a worker."""
        return frozenset(self._workers) | {pod.uid for pod in self._desired.pods()}

    # --- helpers --------------------------------------------------------------------------------------------

    async def _apply(self, change: Change) -> None:
        pod = change.pod
        if change.kind is ChangeKind.LEFT_OUT:
            self._leave_out(pod, change.source)
            return
        if is_mirror(pod):
            self._mirror(change.kind, pod)
            return
        worker = self._workers.get(pod.uid)
        match change.kind:
            case ChangeKind.ADDED:
                await self._add(pod, worker)
            case ChangeKind.UPDATED | ChangeKind.STATUS:
                if worker is not None:
                    if change.kind is ChangeKind.UPDATED:
                        worker.update(pod)
                    else:
                        worker.show(pod)
                elif pod.uid in self._rejected:
                    self._rejected[pod.uid] = pod
                    self._finish_rejected(pod)
                elif pod.uid in self._queued:
                    self._queued[pod.uid] = pod
            case ChangeKind.REMOVED:
                self._queued.pop(pod.uid, None)
                if self._rejected.pop(pod.uid, None) is not None:
                    self._need().status.forget(pod.uid)
                if worker is not None:
                    worker.release()

    async def _add(self, pod: Pod, worker: PodWorker | None) -> None:
        if worker is not None or self._name_taken(pod):
            self._queued[pod.uid] = pod  # its forerunner ends first, then it starts anew
            return
        parts = self._need()
        if pod.terminal or asked_to_end(pod) is not None:
            self._start(pod)
            return
        rejection = await self._admit(pod)
        if rejection is not None:
            _log.info(
                "Pod refused", extra={"pod": pod.full_name, "reason": rejection.reason, "text": rejection.message}
            )
            parts.recorder.record(pod.reference(), EventType.WARNING, rejection.reason, rejection.message)
            self._rejected[pod.uid] = pod
            message = f"Pod was rejected: {rejection.message}"
            parts.status.update(pod, None, ended=True, failed=(rejection.reason, message))
            self._finish_rejected(pod)
            return
        self._start(pod)
        await parts.plugins.notify("nodeagent_pod_admitted", pod=pod)

    async def _admit(self, pod: Pod) -> Rejection | None:
        try:
            answer = await self._need().plugins.call_first(
                "nodeagent_admit_pod", subject=pod.full_name, pod=pod, active=self.active()
            )
        except PluginError as error:
            return Rejection("UnexpectedAdmissionError", str(error))
        return None if answer is None else answer.value

    def _leave_out(self, pod: Pod, source: str) -> None:
        """Tell of a pod that cannot be run beside another one of its name."""
        where = f"{pod.name}_{pod.namespace}({pod.uid})"
        note = f'Error validating pod {where} from {source} due to duplicate pod name "{pod.name}", ignoring'
        _log.error("Two pods have one name, the second is left out", extra={"pod": where, "source": source})
        self._need().recorder.record(pod.reference(), EventType.WARNING, "FailedValidation", note)

    def _finish_rejected(self, pod: Pod) -> None:
        if asked_to_end(pod) is not None:
            self._need().status.terminated(pod)

    def _name_taken(self, pod: Pod) -> bool:
        return is_static(pod) and any(
            worker.static and worker.pod.full_name == pod.full_name for worker in self._workers.values()
        )

    def _start(self, pod: Pod, *, static: bool | None = None) -> PodWorker:
        worker = PodWorker(pod, self._need(), static=is_static(pod) if static is None else static)
        if (ending := asked_to_end(pod)) is not None:
            worker.terminate(ending)
        self._workers[pod.uid] = worker
        self._tasks.start(worker.run(), pod.full_name)
        return worker

    def finished(self, worker: PodWorker) -> None:
        """Forget a worker whose pod is gone and start what waited for it."""
        pod = worker.pod
        self._workers.pop(pod.uid, None)
        self._need().status.forget(pod.uid)
        for uid, waiting in list(self._queued.items()):
            if uid == pod.uid or waiting.full_name == pod.full_name:
                del self._queued[uid]
                if uid == pod.uid:
                    RESTARTED.inc("true" if is_static(pod) else "")
                self._changes.put_nowait(Change(ChangeKind.ADDED, waiting, "queue"))

    def _count(self) -> Mapping[tuple[str, ...], int]:
        """Return how many pods are how far, by what they are; also what there is none of."""
        counts: dict[tuple[str, ...], int] = dict.fromkeys(
            itertools.product(_LIFECYCLES.values(), ("desired", "orphan"), ("", "true")), 0
        )
        counts |= dict.fromkeys(itertools.product(_LIFECYCLES.values(), ("runtime_only",), ("unknown",)), 0)
        for worker in self._workers.values():
            if worker.termination is not None and worker.termination.reason is KillReason.ORPHANED:
                kind, static = "runtime_only", "unknown"
            else:
                kind, static = "desired" if worker.wanted else "orphan", "true" if worker.static else ""
            if lifecycle := _LIFECYCLES.get(worker.phase):
                counts[lifecycle, kind, static] += 1
        return counts

    def _need(self) -> WorkerParts:
        assert self._parts is not None, "run() has not begun"
        return self._parts


def _orphan(observed: RuntimePod) -> Pod:
    """Return what can be told of a pod from the runtime alone."""
    meta = ObjectMeta(name=observed.name, namespace=observed.namespace, uid=observed.uid)
    return Pod(metadata=meta, spec=PodSpec())
