"""Pod worker: the loop that syncs one pod."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from nodeagent.allocation.manager import AllocationManager
from nodeagent.base import identity, tracing
from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.aio.shared_times import SHARED_SECONDS, until_shared
from nodeagent.base.logging import v_level
from nodeagent.base.structs import Struct
from nodeagent.contracts.events import EventRecorder, EventType
from nodeagent.contracts.pods import KillReason, PodSyncer, WaitingReason
from nodeagent.contracts.runtime import ContainerState, RuntimePod
from nodeagent.errors import ClaimError, NodeAgentError, RuntimeFailure
from nodeagent.model.pod import Pod, PodStatus
from nodeagent.pluginmanager import PluginManager
from nodeagent.podworker.interfaces import PodObserver, StatusReporter
from nodeagent.podworker.metrics import STEPS, StartTimer
from nodeagent.podworker.reporting import SyncReports
from nodeagent.podworker.state import (
    BLOCKED_PREFIX,
    Phase,
    Termination,
    WorkerSnapshot,
    effective_grace,
    requested_termination,
)

_log = logging.getLogger(__name__)

_SPANS = {
    Phase.SYNC: "syncPod",
    Phase.TERMINATING: "syncTerminatingPod",
    Phase.TERMINATED: "syncTerminatedPod",
}
RETRY_SECONDS = 10.0
NETWORK_RETRY_SECONDS = 1.0
MIN_LATE_SECONDS = 10.0
TERMINATION_RETRY_SECONDS = 1.0


class WorkerComponents(Struct, frozen=True, kw_only=True):
    """Dependencies of a worker; ``network_problem`` returns the reason why the pod network is not ready, or ``""``."""

    syncer: Callable[[], PodSyncer]
    observer: PodObserver
    status: StatusReporter
    plugins: PluginManager
    recorder: EventRecorder
    clock: Clock
    resync_seconds: float
    network_problem: Callable[[], str]
    finished: Callable[[PodWorker], None]
    ended: Callable[[], None]
    """Called when a pod has terminated and no longer uses the node's resources."""
    allocations: AllocationManager


class PodWorker:
    """Drives one pod through its lifecycle; see :mod:`nodeagent.podworker.state`.

    Only the latest desired state is stored; intermediate ones are skipped. Cancelling :meth:`run` leaves the pod
    running; :meth:`terminate` terminates it.
    """

    def __init__(self, pod: Pod, components: WorkerComponents, *, static: bool = False) -> None:
        self.pod = pod
        self.static = static
        self.phase = Phase.SYNC
        self.termination: Termination | None = None
        self.desired = True
        self.recreated = False
        """The pod is desired again under the same UID: its containers are kept, and with them its restart counts."""
        self._components = components
        self._woken = asyncio.Event()
        self._woken.set()
        self._reports = SyncReports()
        self._due: float | None = None
        self._step: asyncio.Task[None] | None = None
        self._retry = Backoff(TERMINATION_RETRY_SECONDS, RETRY_SECONDS)
        self._waiting: Mapping[str, WaitingReason] = {}
        self._error_text = self._error_reason = self._network = ""
        self._sync_started_at = self._terminating_since = 0.0
        self._start = StartTimer(components.clock, static=static)
        self._updated = self._late_reported = False
        self._may_have_more = True
        """The runtime may have containers of the pod that the cache lacks, because a sync was interrupted or failed."""
        self._blocked: tuple[str, str] | None = None

    # --- requests -------------------------------------------------------------------------------------------

    def update(self, pod: Pod) -> None:
        """Set a newer desired state."""
        self.pod = pod
        self._updated = True
        if (termination := requested_termination(pod)) is not None:
            self.terminate(termination)
        self.wake()

    def show(self, pod: Pod) -> None:
        """Record the pod's status from the API; terminate the pod if that status is terminal."""
        self.pod = pod
        self._components.status.record_api_status(pod)
        if pod.terminal:
            self.terminate(Termination(KillReason.FINISHED, pod.status.message, pod.status.reason))

    def terminate(self, termination: Termination) -> None:
        """Start to terminate the pod, or shorten its grace period; a sync that starts containers is cancelled."""
        if self.phase >= Phase.TERMINATED:
            return
        before = self.termination
        if before is None:
            self._terminating_since = self._components.clock.now()
            fields = self._log_fields()
            if termination.reason is KillReason.DELETED:
                _log.log(v_level(4), "Pod is marked for graceful deletion, begin teardown", extra=fields)  # wording: ok
            else:
                _log.log(v_level(4), "Pod is being removed by the kubelet, begin teardown", extra=fields)  # wording: ok
        self.termination = termination if before is None else before.merge(termination, self.pod)
        if self.phase is Phase.SYNC or self.termination != before:
            self.phase = Phase.TERMINATING
            if self._step is not None:
                self._step.cancel()
        self.wake()

    def release(self) -> None:
        """Terminate the pod, which is no longer desired, then remove its remains."""
        self.desired = False
        self.terminate(Termination(KillReason.REMOVED, grace_seconds=self.pod.metadata.deletion_grace_period_seconds))
        self.wake()

    def wake(self) -> None:
        """Start the next sync now; a sync in progress reports the status."""
        self._woken.set()
        self._reports.changed()

    def is_syncing(self, seconds: float) -> bool:
        """Return whether a sync of the running pod is in progress that started within the last *seconds*."""
        now = self._components.clock.now()
        return self._step is not None and self.phase is Phase.SYNC and now - self._sync_started_at < seconds

    def snapshot(self) -> WorkerSnapshot:
        """Return the current state of the worker."""
        return WorkerSnapshot(
            phase=self.phase,
            termination=self.termination,
            working_since=self._sync_started_at if self._step is not None else None,
            due_at=self._due,
            error=self._error_text,
            reason=self._error_reason,
            network_problem=self._network,
        )

    # --- the loop -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the pod is no longer desired and has been removed."""
        while self.phase is not Phase.REMOVED:
            await self._wait()
            self._woken.clear()
            self._reports.discard()
            self._due = None
            self._step = asyncio.create_task(self._sync_once(), name=f"pod/{self.pod.full_name}")
            try:
                await asyncio.wait({self._step})
                if self._step.cancelled():
                    self._may_have_more = True
                    continue  # Superseded by a termination.
                self._step.result()
            except asyncio.CancelledError:
                self._step.cancel()
                await asyncio.wait({self._step})
                raise
            finally:
                self._step = None
        self._components.finished(self)

    async def _wait(self) -> None:
        """Wait until a sync is requested or due."""
        if self._due is None:
            await self._woken.wait()
            return
        pause = self._due - self._components.clock.now()
        if pause <= 0 or self._woken.is_set():
            return
        sleeper = asyncio.ensure_future(self._components.clock.sleep(pause))
        sleeper.add_done_callback(self._sync_due)
        try:
            await self._woken.wait()
        finally:
            sleeper.remove_done_callback(self._sync_due)
            sleeper.cancel()

    def _sync_due(self, _: object) -> None:
        self._woken.set()

    async def _sync_once(self) -> None:
        """Sync once; a failure schedules a retry."""
        self._sync_started_at = started = self._components.clock.now()
        operation = self._operation()
        try:
            with tracing.span(_SPANS[self.phase], lambda: _attributes(self.pod, operation)):
                match self.phase:
                    case Phase.SYNC:
                        await self._sync()
                    case Phase.TERMINATING:
                        await self._terminate()
                    case Phase.TERMINATED:
                        await self._remove()
        except NodeAgentError as error:
            self._failed(error, str(error))
        except Exception as error:
            _log.exception("Failed to sync pod due to an unexpected exception", extra=self._log_fields())
            self._failed(error, repr(error))
        else:
            self._may_have_more = False
            if self._error_text:
                self._error_text = self._error_reason = ""
                _log.info("Pod sync recovered", extra=self._log_fields())
        finally:
            STEPS.observe(self._components.clock.now() - started, operation)

    def _log_fields(self) -> dict[str, str]:
        return {"pod": self.pod.full_name, "podUID": self.pod.uid}

    def _operation(self) -> str:
        """Return the operation type of the next sync, for metrics."""
        updated, self._updated = self._updated, False
        if self.phase is not Phase.SYNC:
            return "kill"
        observed = self._components.observer.get(self.pod.uid)
        if self._start.begin(self.pod, runs=bool(observed and observed.sandboxes)):
            return "create"
        return "update" if updated else "sync"

    def _failed(self, error: Exception, text: str) -> None:
        self._may_have_more = True
        self._error_reason = error.reason if isinstance(error, NodeAgentError) else "Error"
        if text != self._error_text:
            self._error_text = text
            _log.error(
                "Error syncing pod, skipping", extra={**self._log_fields(), "phase": self.phase.name, "err": text}
            )
        quick = self.phase is not Phase.SYNC or isinstance(error, RuntimeFailure | ClaimError)
        self._due_in(self._retry.next() if quick else RETRY_SECONDS * (1 + random.random() / 2))  # noqa: S311

    # --- SYNC -----------------------------------------------------------------------------------------------

    async def _sync(self) -> None:
        components, pod = self._components, self.pod
        observer = components.observer
        # A pod whose status is unknown must not be started again.
        observed = observer.get(pod.uid) if observer.is_known(pod.uid) else await observer.refresh(pod.uid)
        components.allocations.review(pod, observed)
        status = components.status.update(pod, observed, waiting=self._waiting, blocked=self._blocked)
        self._start.observe(pod, status)
        if self._terminate_if_finished(pod, status):
            return
        result = await components.plugins.call_first("nodeagent_permit_pod", subject=pod.full_name, pod=pod)
        if result is not None:
            await self._block(pod, observed, result.value.reason, result.value.message)
            return
        self._blocked = None
        problem = "" if pod.spec.host_network or (observed and observed.alive) else components.network_problem()
        self._network = problem
        if problem:
            components.recorder.record(
                pod.reference(), EventType.WARNING, "NetworkNotReady", f"network is not ready: {problem}"
            )
            self._due_in(NETWORK_RETRY_SECONDS)
            return
        absent, progress = RuntimePod(pod.uid, pod.name, pod.namespace), components.allocations.progress(pod.uid)
        # Intermediate container states of this sync must not be reported, so only probe results change here.
        with self._reports.sent(lambda: components.status.update(self.pod, observed)):
            outcome = await components.syncer().sync_pod(pod, status, observed or absent)
        unchanged = not outcome.touched and outcome.waiting == self._waiting
        self._waiting = outcome.waiting
        self._start.waited_for_images(outcome.image_seconds)
        if outcome.touched:
            observed = await components.observer.refresh(pod.uid, outcome.touched, outcome.created_sandbox)
        if outcome.resize_error:
            components.allocations.failed(pod, outcome.resize_error)
        components.allocations.review(pod, observed)
        if not unchanged or components.allocations.progress(pod.uid) != progress:
            # Otherwise only probe results can have changed, which have been reported.
            status = components.status.update(pod, observed, waiting=self._waiting)
            self._start.observe(pod, status)
        if (
            outcome.touched
            and observed
            and any(c.state is ContainerState.EXITED for c in observed.containers if c.id in outcome.touched)
        ):
            self.wake()  # The container exited before its running state was observed.
        if outcome.error is not None:
            raise outcome.error
        self._retry.reset()
        resync = resync_pause(components.clock.now(), components.resync_seconds, random.random())  # noqa: S311
        self._due_in(min(resync, *self._next_times(status, outcome.retry_seconds)))

    def _terminate_if_finished(self, pod: Pod, status: PodStatus) -> bool:
        """Terminate a pod that has finished or exceeded its deadline; return whether it did."""
        if status.phase in ("Succeeded", "Failed"):
            self.terminate(Termination(KillReason.FINISHED, status.message, status.reason))
            return True
        left = self._deadline_left(status)
        if left is not None and left <= 0:
            message = "Pod was active on the node longer than the specified deadline"
            self._components.recorder.record(pod.reference(), EventType.NORMAL, "DeadlineExceeded", message)
            self.terminate(Termination(KillReason.DEADLINE, message, "DeadlineExceeded"))
            return True
        return False

    def _next_times(self, status: PodStatus, retry_seconds: float | None) -> list[float]:
        left = self._deadline_left(status)
        return [seconds for seconds in (retry_seconds, left, float("inf")) if seconds is not None]

    def _deadline_left(self, status: PodStatus) -> float | None:
        deadline = self.pod.spec.active_deadline_seconds
        if deadline is None or status.start_time is None:
            return None
        return deadline - (self._components.clock.wall() - status.start_time).total_seconds()

    async def _block(self, pod: Pod, observed: RuntimePod | None, reason: str, message: str) -> None:
        """Stop the containers of a pod that a plugin blocks."""
        components = self._components
        waiting = {container.name: WaitingReason("Blocked", message) for _, container in pod.containers()}
        self._waiting, self._blocked = waiting, (reason, message)
        if observed is not None and observed.alive:
            await components.syncer().sync_terminating(pod, observed, None)
            observed = await components.observer.refresh(pod.uid)
        components.status.update(pod, observed, waiting=waiting, blocked=self._blocked)
        raise NodeAgentError(f"{BLOCKED_PREFIX}{message}", reason=reason)

    # --- TERMINATING ----------------------------------------------------------------------------------------

    async def _terminate(self) -> None:
        components, pod = self._components, self.pod
        assert self.termination is not None
        termination = self.termination
        failed = (termination.status_reason, termination.message) if termination.status_reason else None
        observed = await self._observe()
        disrupted = _disruption(termination)
        components.status.update(pod, observed, failed=failed, disrupted=disrupted)
        if observed is not None and observed.alive:
            grace = effective_grace(pod, termination)
            use_annotations = (
                termination.reason in (KillReason.FINISHED, KillReason.ORPHANED) and termination.grace_seconds is None
            )
            # Without a grace period, the one in the containers' annotations applies.
            seconds = None if use_annotations else grace
            async with self._watched(termination, grace):
                with self._reports.sent(self._report_termination):
                    outcome = await components.syncer().sync_terminating(pod, observed, seconds)
            touched = outcome.touched or None if outcome.error is None else None
            if touched is not None:
                touched -= _stopped(components.observer.get(pod.uid))
            observed = await components.observer.refresh(pod.uid, touched)
            if outcome.error is not None:
                raise outcome.error
            if observed is not None and observed.alive:
                raise RuntimeFailure(f"failed to stop {pod.full_name}: containers are still running", transient=True)
        await components.syncer().sync_stopped(pod)
        components.status.update(pod, observed, ended=True, failed=failed, disrupted=disrupted)
        absent = RuntimePod(pod.uid, pod.name, pod.namespace)
        await components.syncer().sync_terminated(pod, observed or absent)
        self.phase = Phase.TERMINATED
        components.ended()
        self._retry.reset()
        components.status.terminated(pod)
        await components.plugins.notify("nodeagent_pod_terminated", pod=pod)
        self.wake()

    def _report_termination(self) -> None:
        """Report container states and probe results that were observed since the termination started."""
        observed = self._components.observer.get(self.pod.uid)
        if observed is not None:
            self._components.status.update(self.pod, observed)

    @asynccontextmanager
    async def _watched(self, termination: Termination, grace_seconds: int) -> AsyncIterator[None]:
        """Record one event if a disrupted pod exceeds its grace period by far."""
        if not termination.reason.disruption or self._late_reported:
            yield
            return
        late_at = self._terminating_since + max(grace_seconds * 1.5, MIN_LATE_SECONDS)
        watcher = asyncio.create_task(self._report_late(late_at))
        try:
            yield
        finally:
            watcher.cancel()

    async def _report_late(self, late_at: float) -> None:
        await self._components.clock.sleep_until(late_at)
        self._late_reported = True
        note = "Container runtime did not kill the pod within specified grace period."
        self._components.recorder.record(self.pod.reference(), EventType.WARNING, "ExceededGracePeriod", note)

    # --- TERMINATED -----------------------------------------------------------------------------------------

    async def _remove(self) -> None:
        if self.desired:
            self._components.status.terminated(self.pod)  # The deletion may have been requested after the termination.
            return
        pod = self.pod
        if not self.recreated:
            observed = await self._observe()
            await self._components.syncer().remove_pod(pod, observed or RuntimePod(pod.uid, pod.name, pod.namespace))
            self._components.observer.forget(pod.uid)
        self.phase = Phase.REMOVED

    async def _observe(self) -> RuntimePod | None:
        """Return the status of the pod with all its containers, from the cache if that is certain to have them."""
        observer = self._components.observer
        certain = not self._may_have_more and observer.is_known(self.pod.uid)
        return observer.get(self.pod.uid) if certain else await observer.refresh(self.pod.uid)

    def _due_in(self, seconds: float) -> None:
        self._due = self._components.clock.now() + seconds


def resync_pause(now: float, period_seconds: float, jitter: float) -> float:
    """Return the seconds until the next periodic sync: one to one and a half periods, at a time that pods share.

    :param jitter: a random number from 0 to 1.
    """
    seconds = period_seconds * (1 + jitter / 2)
    if period_seconds < 2 * SHARED_SECONDS:
        return seconds
    pause = until_shared(now, seconds)
    return pause if pause >= period_seconds else pause + SHARED_SECONDS


def _stopped(observed: RuntimePod | None) -> set[str]:
    """Return the IDs of exited containers and stopped sandboxes, which do not change again."""
    if observed is None:
        return set()
    sandboxes = {sandbox.id for sandbox in observed.sandboxes if not sandbox.ready}
    return sandboxes | {each.id for each in observed.containers if each.state is ContainerState.EXITED}


def _disruption(termination: Termination) -> str:
    """Return the message of the DisruptionTarget condition; empty if the termination is not a disruption."""
    if termination.reason is KillReason.PREEMPTED:
        name = identity.current().component.capitalize()
        return f"Pod was preempted by {name} to accommodate a critical pod."
    return termination.message if termination.reason.disruption else ""


def _attributes(pod: Pod, operation: str) -> dict[str, str]:
    """Return the span attributes of the pod."""
    return {
        "k8s.pod": f"{pod.namespace}/{pod.name}",
        "k8s.pod.name": pod.name,
        "k8s.namespace.name": pod.namespace,
        "k8s.pod.uid": pod.uid,
        "k8s.pod.update_type": operation,
    }
