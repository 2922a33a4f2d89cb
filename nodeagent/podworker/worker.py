"""The loop around the syncer for one pod."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nodeagent.base import identity, tracing
from nodeagent.base.aio import Backoff, Clock
from nodeagent.contracts.events import EventRecorder, EventType
from nodeagent.contracts.observe import PodObserver, StatusReporter
from nodeagent.contracts.pods import KillReason, PodSyncer, WaitingReason
from nodeagent.contracts.runtime import ContainerState, RuntimePod
from nodeagent.errors import NodeAgentError, RuntimeFailure
from nodeagent.model.pod import Pod, PodStatus
from nodeagent.pluginmanager import PluginManager
from nodeagent.podworker.metrics import STEPS, StartWatch
from nodeagent.podworker.reporting import reporting
from nodeagent.podworker.state import Phase, Termination, WorkerPicture, asked_to_end, effective_grace

_log = logging.getLogger(__name__)

_SPANS = {
    Phase.SYNC: "syncPod",
    Phase.TERMINATING: "syncTerminatingPod",
    Phase.TERMINATED: "syncTerminatedPod",
}
RETRY_SECONDS = 10.0
NETWORK_RETRY_SECONDS = 1.0
LEAST_KILL_SECONDS = 10.0
TERMINATION_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerParts:
    """What every worker uses; ``network_problem`` returns why pod networks cannot be made now, or an empty text."""

    syncer: Callable[[], PodSyncer]
    observer: PodObserver
    status: StatusReporter
    plugins: PluginManager
    recorder: EventRecorder
    clock: Clock
    resync_seconds: float
    network_problem: Callable[[], str]
    finished: Callable[[PodWorker], None]


class PodWorker:
    """Brings one pod through its life; see :mod:`nodeagent.podworker.state`.

    Holds only the newest wanted state: what was wanted in between is never acted upon. Cancelling :meth:`run` leaves
    the pod running; ending it is :meth:`terminate`.
    """

    def __init__(self, pod: Pod, parts: WorkerParts, *, static: bool = False) -> None:
        self.pod = pod
        self.static = static
        self.phase = Phase.SYNC
        self.termination: Termination | None = None
        self.wanted = True
        self._parts = parts
        self._woken = asyncio.Event()
        self._woken.set()
        self._changed = asyncio.Event()
        self._due: float | None = None
        self._step: asyncio.Task[None] | None = None
        self._retry = Backoff(TERMINATION_RETRY_SECONDS, RETRY_SECONDS)
        self._waiting: Mapping[str, WaitingReason] = {}
        self._error_text = self._error_reason = self._network = ""
        self._step_began = self._ending_since = 0.0
        self._start = StartWatch(parts.clock, static=static)
        self._updated = self._told_late = False
        self._blocked: tuple[str, str] | None = None

    # --- what others may do ---------------------------------------------------------------------------------

    def update(self, pod: Pod) -> None:
        """Take a newer wanted state."""
        self.pod = pod
        self._updated = True
        if (ending := asked_to_end(pod)) is not None:
            self.terminate(ending)
        self.wake()

    def show(self, pod: Pod) -> None:
        """Take what the API shows of the pod, where nothing else of it changed; one it calls finished is ended."""
        self.pod = pod
        self._parts.status.shown(pod)
        if pod.terminal:
            self.terminate(Termination(KillReason.FINISHED, pod.status.message, pod.status.reason))

    def terminate(self, termination: Termination) -> None:
        """Start to end the pod, or shorten its grace; a step that is still starting things is cancelled."""
        if self.phase >= Phase.TERMINATED:
            return
        before = self.termination
        if before is None:
            self._ending_since = self._parts.clock.now()
        self.termination = termination if before is None else before.merge(termination, self.pod)
        if self.phase is Phase.SYNC or self.termination != before:
            self.phase = Phase.TERMINATING
            if self._step is not None:
                self._step.cancel()
        self.wake()

    def release(self) -> None:
        """Nobody wants the pod any more: end it if it runs, then remove what is left of it."""
        self.wanted = False
        self.terminate(Termination(KillReason.REMOVED, grace_seconds=self.pod.metadata.deletion_grace_period_seconds))
        self.wake()

    def wake(self) -> None:
        """Start the next step now; a step in progress reports the status."""
        self._woken.set()
        self._changed.set()

    def picture(self) -> WorkerPicture:
        """Return what the worker does now."""
        return WorkerPicture(
            phase=self.phase,
            termination=self.termination,
            working_since=self._step_began if self._step is not None else None,
            due_at=self._due,
            error=self._error_text,
            reason=self._error_reason,
            network_problem=self._network,
        )

    # --- the loop -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until nobody wants the pod and nothing of it is left."""
        while self.phase is not Phase.REMOVED:
            await self._rest()
            self._woken.clear()
            self._changed.clear()
            self._due = None
            self._step = asyncio.create_task(self._one_step(), name=f"pod/{self.pod.full_name}")
            try:
                await asyncio.wait({self._step})
                if self._step.cancelled():
                    continue  # overtaken by a termination
                self._step.result()
            except asyncio.CancelledError:
                self._step.cancel()
                await asyncio.wait({self._step})
                raise
            finally:
                self._step = None
        self._parts.finished(self)

    async def _rest(self) -> None:
        """Wait until woken or due."""
        if self._due is None:
            await self._woken.wait()
            return
        pause = self._due - self._parts.clock.now()
        if pause <= 0 or self._woken.is_set():
            return
        waker = asyncio.ensure_future(self._woken.wait())
        sleeper = asyncio.ensure_future(self._parts.clock.sleep(pause))
        try:
            await asyncio.wait({waker, sleeper}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waker.cancel()
            sleeper.cancel()

    async def _one_step(self) -> None:
        """Take one step; every failure ends here, as a time to try again."""
        self._step_began = began = self._parts.clock.now()
        operation = self._operation()
        try:
            with tracing.span(_SPANS[self.phase], lambda: _attributes(self.pod, operation)):
                match self.phase:
                    case Phase.SYNC:
                        await self._sync()
                    case Phase.TERMINATING:
                        await self._end()
                    case Phase.TERMINATED:
                        await self._remove()
        except NodeAgentError as error:
            self._failed(error, str(error))
        except Exception as error:
            _log.exception("Pod step failed unexpectedly", extra={"pod": self.pod.full_name})
            self._failed(error, repr(error))
        else:
            if self._error_text:
                self._error_text = self._error_reason = ""
                _log.info("Pod goes on", extra={"pod": self.pod.full_name})
        finally:
            STEPS.observe(self._parts.clock.now() - began, operation)

    def _operation(self) -> str:
        """Return what the next step is called in metrics."""
        updated, self._updated = self._updated, False
        if self.phase is not Phase.SYNC:
            return "kill"
        observed = self._parts.observer.get(self.pod.uid)
        if self._start.begin(self.pod, runs=bool(observed and observed.sandboxes)):
            return "create"
        return "update" if updated else "sync"

    def _failed(self, error: Exception, text: str) -> None:
        self._error_reason = error.reason if isinstance(error, NodeAgentError) else "Error"
        if text != self._error_text:
            self._error_text = text
            _log.error("Pod cannot go on now", extra={"pod": self.pod.full_name, "phase": self.phase.name, "err": text})
        quick = self.phase is not Phase.SYNC or isinstance(error, RuntimeFailure)
        self._due_in(self._retry.next() if quick else RETRY_SECONDS * (1 + random.random() / 2))  # noqa: S311

    # --- SYNC -----------------------------------------------------------------------------------------------

    async def _sync(self) -> None:
        parts, pod = self._parts, self.pod
        observed = parts.observer.get(pod.uid)
        status = parts.status.update(pod, observed, waiting=self._waiting, blocked=self._blocked)
        self._start.look(pod, status)
        if self._over(pod, status):
            return
        answer = await parts.plugins.call_first("nodeagent_permit_pod", subject=pod.full_name, pod=pod)
        if answer is not None:
            await self._hold_back(pod, observed, answer.value.reason, answer.value.message)
            return
        self._blocked = None
        problem = "" if pod.spec.host_network or (observed and observed.alive) else parts.network_problem()
        self._network = problem
        if problem:
            parts.recorder.record(
                pod.reference(), EventType.WARNING, "NetworkNotReady", f"network is not ready: {problem}"
            )
            self._due_in(NETWORK_RETRY_SECONDS)
            return
        nothing = RuntimePod(pod.uid, pod.name, pod.namespace)
        # Of what the step itself changes, intermediate states must not be reported: only probe results are new here.
        async with reporting(self._changed, lambda: parts.status.update(self.pod, observed)):
            outcome = await parts.syncer().sync_pod(pod, status, observed or nothing)
        self._waiting = outcome.waiting
        self._start.waited_for_images(outcome.image_seconds)
        if outcome.touched:
            observed = await parts.observer.refresh(pod.uid, outcome.touched)
        status = parts.status.update(pod, observed, waiting=self._waiting)
        self._start.look(pod, status)
        if (
            outcome.touched
            and observed
            and any(c.state is ContainerState.EXITED for c in observed.containers if c.id in outcome.touched)
        ):
            self.wake()  # it ended before anybody could see it run
        if outcome.error is not None:
            raise outcome.error
        self._retry.reset()
        resync = parts.resync_seconds * (1 + random.random() / 2)  # noqa: S311
        self._due_in(min(resync, *self._next_times(status, outcome.retry_seconds)))

    def _over(self, pod: Pod, status: PodStatus) -> bool:
        """Start the end of a pod that is finished or past its deadline."""
        if status.phase in ("Succeeded", "Failed"):
            self.terminate(Termination(KillReason.FINISHED, status.message, status.reason))
            return True
        left = self._deadline_left(status)
        if left is not None and left <= 0:
            message = "Pod was active on the node longer than the specified deadline"
            self._parts.recorder.record(pod.reference(), EventType.NORMAL, "DeadlineExceeded", message)
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
        return deadline - (self._parts.clock.wall() - status.start_time).total_seconds()

    async def _hold_back(self, pod: Pod, observed: RuntimePod | None, reason: str, message: str) -> None:
        """Keep an admitted pod from running until the plugin lets it."""
        parts = self._parts
        waiting = {container.name: WaitingReason("Blocked", message) for _, container in pod.containers()}
        self._waiting, self._blocked = waiting, (reason, message)
        if observed is not None and observed.alive:
            await parts.syncer().sync_terminating(pod, observed, None)
            observed = await parts.observer.refresh(pod.uid)
        parts.status.update(pod, observed, waiting=waiting, blocked=self._blocked)
        raise NodeAgentError(f"pod cannot be run: {message}", reason=reason)

    # --- TERMINATING ----------------------------------------------------------------------------------------

    async def _end(self) -> None:
        parts, pod = self._parts, self.pod
        assert self.termination is not None
        ending = self.termination
        failed = (ending.status_reason, ending.message) if ending.status_reason else None
        observed = await parts.observer.refresh(pod.uid)
        disrupted = _disruption(ending)
        parts.status.update(pod, observed, failed=failed, disrupted=disrupted)
        if observed is not None and observed.alive:
            grace = effective_grace(pod, ending)
            by_itself = ending.reason in (KillReason.FINISHED, KillReason.ORPHANED) and ending.grace_seconds is None
            async with self._watched(ending, grace), reporting(self._changed, self._report_termination):
                # without a grace the containers' own annotations tell
                outcome = await parts.syncer().sync_terminating(pod, observed, None if by_itself else grace)
            observed = await parts.observer.refresh(pod.uid)
            if outcome.error is not None:
                raise outcome.error
            if observed is not None and observed.alive:
                raise RuntimeFailure(f"stop {pod.full_name}: something of it still runs", transient=True)
        parts.status.update(pod, observed, ended=True, failed=failed, disrupted=disrupted)
        nothing = RuntimePod(pod.uid, pod.name, pod.namespace)
        await parts.syncer().sync_terminated(pod, observed or nothing)
        self.phase = Phase.TERMINATED
        self._retry.reset()
        parts.status.terminated(pod)
        await parts.plugins.notify("nodeagent_pod_terminated", pod=pod)
        self.wake()

    def _report_termination(self) -> None:
        """Report what the runtime and the probes have shown of the pod since it started to terminate."""
        observed = self._parts.observer.get(self.pod.uid)
        if observed is not None:
            self._parts.status.update(self.pod, observed)

    @asynccontextmanager
    async def _watched(self, ending: Termination, grace_seconds: int) -> AsyncIterator[None]:
        """Tell, once, when a pod that the node ends for its own sake takes much longer than its grace."""
        if not ending.reason.disruption or self._told_late:
            yield
            return
        late_at = self._ending_since + max(grace_seconds * 1.5, LEAST_KILL_SECONDS)
        watcher = asyncio.create_task(self._tell_late(late_at))
        try:
            yield
        finally:
            watcher.cancel()

    async def _tell_late(self, late_at: float) -> None:
        await self._parts.clock.sleep_until(late_at)
        self._told_late = True
        note = "Container runtime did not kill the pod within specified grace period."
        self._parts.recorder.record(self.pod.reference(), EventType.WARNING, "ExceededGracePeriod", note)

    # --- TERMINATED -----------------------------------------------------------------------------------------

    async def _remove(self) -> None:
        if self.wanted:
            self._parts.status.terminated(self.pod)  # a deletion may have come after the end
            return
        pod = self.pod
        observed = await self._parts.observer.refresh(pod.uid)
        await self._parts.syncer().remove_pod(pod, observed or RuntimePod(pod.uid, pod.name, pod.namespace))
        await self._parts.observer.refresh(pod.uid)
        self.phase = Phase.REMOVED

    def _due_in(self, seconds: float) -> None:
        self._due = self._parts.clock.now() + seconds


def _disruption(ending: Termination) -> str:
    """Return what the condition DisruptionTarget says; empty when the pod does not end for the node's sake."""
    if ending.reason is KillReason.PREEMPTED:
        name = identity.current().component.capitalize()
        return f"Pod was preempted by {name} to accommodate a critical pod."
    return ending.message if ending.reason.disruption else ""


def _attributes(pod: Pod, operation: str) -> dict[str, str]:
    """Return what a span says about the pod."""
    return {
        "k8s.pod": f"{pod.namespace}/{pod.name}",
        "k8s.pod.name": pod.name,
        "k8s.namespace.name": pod.namespace,
        "k8s.pod.uid": pod.uid,
        "k8s.pod.update_type": operation,
    }
