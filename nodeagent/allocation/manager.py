"""Allocation manager: allocated resources of pods, and pending resizes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from nodeagent.allocation import metrics
from nodeagent.allocation.checkpoint import PodResources
from nodeagent.allocation.conditions import ResizeConditions
from nodeagent.allocation.decision import (
    DEFERRED,
    INFEASIBLE,
    MaySwap,
    PendingResize,
    ResizeRules,
    in_order,
    infeasible,
)
from nodeagent.allocation.events import COMPLETED, FAILED, PENDING, STARTED, resize_message
from nodeagent.allocation.report import ResourceReport
from nodeagent.allocation.restoring import reported_resources
from nodeagent.allocation.state import ACTUATED_FILE, ALLOCATED_FILE, ResourceState
from nodeagent.contracts.events import EventRecorder, EventType
from nodeagent.contracts.pods import Rejection
from nodeagent.contracts.runtime import ContainerState, RuntimePod
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Pod, PodCondition, ResourceRequirements
from nodeagent.model.resizing import (
    resizable_containers,
    same_amounts,
    same_resources,
    with_effective_limits,
    with_pod_resources,
    with_resources,
)

_log = logging.getLogger(__name__)

Admit = Callable[[Pod], Awaitable[Rejection | None]]
"""Runs the node's admission on a pod with its requested resources."""


class AllocationManager:
    """Stores the resources that pods were granted, and decides on resizes.

    Implements :class:`~nodeagent.contracts.allocation.PodAllocations`. With the feature gate disabled it stores
    nothing, and pods have the resources of their specs.

    :param root: directory of the state files.
    :param recorder: returns the event recorder.
    :param may_swap: returns whether a container may use swap.
    :param now: returns the time.
    """

    def __init__(
        self,
        root: Path | None,
        rules: ResizeRules,
        *,
        recorder: Callable[[], EventRecorder],
        may_swap: MaySwap,
        now: Callable[[], datetime],
    ) -> None:
        self._rules, self._recorder, self._may_swap = rules, recorder, may_swap
        persistent = root is not None and rules.enabled
        self._allocated = ResourceState(root / ALLOCATED_FILE if root is not None and persistent else None)
        self._actuated = ResourceState(root / ACTUATED_FILE if root is not None and persistent else None)
        self._conditions = ResizeConditions(now)
        self._pending: set[str] = set()
        metrics.PENDING.sample = self._count_pending
        metrics.IN_PROGRESS.sample = self._count_in_progress

    def load(self) -> None:
        """Read the state files. Blocks."""
        for state in (self._allocated, self._actuated):
            if problem := state.load():
                _log.error("Failed to restore pod resource checkpoint, using pod statuses", extra={"err": problem})

    # --- PodAllocations -------------------------------------------------------------------------------------

    @property
    def resizing(self) -> bool:
        """True if pods are resized in place."""
        return self._rules.enabled

    def actuated(self, pod_uid: str, container: str) -> ResourceRequirements | None:
        entry = self._actuated.get(pod_uid)
        return None if entry is None else entry.containers.get(container)

    def pod_actuated(self, pod_uid: str) -> ResourceRequirements | None:
        entry = self._actuated.get(pod_uid)
        return None if entry is None else entry.pod

    async def record_pod_actuated(self, pod_uid: str, resources: ResourceRequirements | None) -> None:
        if not self._rules.pod_level or same_resources(resources, self.pod_actuated(pod_uid)):
            return
        try:
            await self._actuated.set_pod(pod_uid, resources)
        except OSError as error:
            raise NodeAgentError(f"failed to save the resources of pod {pod_uid}: {error}") from error

    async def record_actuated(self, pod_uid: str, container: str, resources: ResourceRequirements) -> None:
        if not self._rules.enabled:
            return
        try:
            await self._actuated.set_container(pod_uid, container, resources)
        except OSError as error:
            raise NodeAgentError(f"failed to save the resources of container {container}: {error}") from error

    # --- pods -----------------------------------------------------------------------------------------------

    def allocated(self, pod: Pod) -> Pod:
        """Return *pod* with the resources that it was granted; unchanged if nothing is recorded."""
        entry = self._allocated.get(pod.uid)
        if entry is None:
            return pod
        pod = with_resources(pod, entry.containers)
        return with_pod_resources(pod, entry.pod) if self._rules.pod_level else pod

    async def restore(self, pod: Pod) -> Pod:
        """Return a new pod with the resources that it was granted before a restart of the agent.

        Without a record, those in its reported status count, because the file may have been lost; otherwise its spec.
        """
        if not self._rules.enabled:
            return pod
        self._conditions.restore(pod)
        if self._allocated.get(pod.uid) is None:
            reported = reported_resources(pod, granted=True)
            if reported:
                pod = with_resources(pod, reported)
        pod = self.allocated(pod)
        await self._restore_actuated(pod)
        return pod

    async def _restore_actuated(self, pod: Pod) -> None:
        """Record the resources of containers without a record: those reported, otherwise the granted ones.

        Containers that report none were never resized, because the API server requires the report.
        """
        before, reported = self._actuated.get(pod.uid) or PodResources(), reported_resources(pod, granted=False)
        containers = dict(before.containers)
        for _, container in resizable_containers(pod, init=self._rules.init_containers):
            effective = with_effective_limits(pod, container) if self._rules.pod_level else container
            containers.setdefault(container.name, reported.get(container.name, effective.resources))
        own = before.pod or (pod.status.resources or pod.spec.resources if self._rules.pod_level else None)
        try:
            await self._actuated.set(pod.uid, PodResources(containers, own), forced=True)
        except OSError as error:
            _log.error("Failed to save pod resource checkpoint", extra={"pod": pod.full_name, "err": str(error)})

    async def allocate(self, pod: Pod) -> None:
        """Record the resources of an admitted pod.

        A failure to write them is logged: after a restart, the reported status or the spec is a substitute.
        """
        if not self._rules.enabled:
            return
        try:
            await self._allocated.set(pod.uid, self._resources(pod), forced=True)
        except OSError as error:
            _log.error("Failed to save pod resource checkpoint", extra={"pod": pod.full_name, "err": str(error)})

    async def retain(self, is_known: Callable[[str], bool]) -> None:
        """Remove the records of pods that are not known.

        :param is_known: returns whether a pod exists now, by its UID; pods may be added before this function ends.
        """
        for uid in [uid for uid in self._pending if not is_known(uid)]:
            self.drop(uid)
        await self._allocated.retain(is_known)
        await self._actuated.retain(is_known)

    def forget(self, uid: str) -> None:
        """Drop the resize of a pod that is no longer desired; its records are removed by :meth:`retain`."""
        self.drop(uid)
        self._conditions.forget(uid)

    # --- deciding -------------------------------------------------------------------------------------------

    def request(self, pod: Pod) -> bool:
        """Queue the resize that *pod* requests; return whether there is one."""
        if not self._rules.enabled or self.allocated(pod) is pod:
            self.drop(pod.uid)
            return False
        self._pending.add(pod.uid)
        return True

    def drop(self, uid: str) -> None:
        """Drop the pending resize of a pod, if any."""
        self._pending.discard(uid)
        self._conditions.clear_pending(uid)

    @property
    def pending(self) -> bool:
        """True if a resize waits for a decision."""
        return bool(self._pending)

    async def retry(
        self, pods: Mapping[str, Pod], admit: Admit, trigger: str, changed: Callable[[Pod], None] = lambda _: None
    ) -> None:
        """Decide on all pending resizes.

        :param pods: the running pods with their requested resources, by UID.
        :param trigger: reason of the retry, for metrics.
        :param changed: called with each pod whose resources or conditions changed, before the next decision.
        """
        for uid in self._pending - pods.keys():
            self.drop(uid)
        queue = in_order(self._pending_resize(pods[uid]) for uid in self._pending)
        for resize in queue:
            before = self._conditions.listed(resize.desired.uid)
            granted = await self._decide(resize, admit, trigger)
            if granted or self._conditions.listed(resize.desired.uid) != before:
                changed(resize.desired)

    async def _decide(self, resize: PendingResize, admit: Admit, trigger: str) -> bool:
        """Grant, defer or reject *resize*; return whether it was granted."""
        pod, uid = resize.desired, resize.desired.uid
        if self.allocated(pod) is pod:
            self.drop(uid)
            return False
        never = infeasible(resize, self._rules, self._may_swap)
        if never is not None:
            metrics.INFEASIBLE.inc(never.detail)
            self._pending.discard(uid)
            self._report_pending(pod, INFEASIBLE, never.message)
            return False
        rejection = await admit(pod)
        if rejection is not None:
            self._report_pending(pod, DEFERRED, rejection.message)
            return False
        try:
            await self._allocated.set(uid, self._resources(pod))
        except OSError as error:
            _log.error("Failed to save pod resource checkpoint", extra={"pod": pod.full_name, "err": str(error)})
            return False
        if resize.since is not None:
            metrics.DEFERRED_ACCEPTED.inc(trigger)
        self.drop(uid)
        self._conditions.clear_in_progress(uid)
        generation = pod.metadata.generation
        self._conditions.set_in_progress(uid, generation)
        self._record(pod, EventType.NORMAL, STARTED, resize_message("started", pod, generation))
        return True

    def _pending_resize(self, pod: Pod) -> PendingResize:
        condition = self._conditions.of(pod.uid).pending
        deferred = condition is not None and condition.reason == DEFERRED
        since = condition.last_transition_time if condition is not None and deferred else None
        return PendingResize(pod, self.allocated(pod), since)

    def _report_pending(self, pod: Pod, reason: str, message: str) -> None:
        generation = pod.metadata.generation
        if self._conditions.set_pending(pod.uid, reason, message, generation):
            text = resize_message(reason, pod, generation, message)
            self._record(pod, EventType.WARNING, PENDING[reason], text)

    # --- progress -------------------------------------------------------------------------------------------

    def conditions(self, uid: str) -> Sequence[PodCondition]:
        """Return the resize conditions of a pod."""
        return self._conditions.listed(uid)

    def report(self, uid: str) -> ResourceReport:
        """Return the resources that the runtime has applied to the containers of a pod."""
        entry = self._actuated.get(uid)
        pod_level = entry.pod if entry is not None and self._rules.pod_level else None
        return ResourceReport({} if entry is None else entry.containers, self._rules.init_containers, pod_level)

    def progress(self, uid: str) -> object:
        """Return a value that differs after a change of :meth:`conditions` or :meth:`report`."""
        return [*self.conditions(uid), self.report(uid)] if self._rules.enabled else None

    def review(self, pod: Pod, observed: RuntimePod | None) -> None:
        """Report whether a resize of *pod* is in progress, and its completion.

        :param pod: the pod with its allocated resources.
        """
        if not self._rules.enabled:
            return
        if self._in_progress(pod, observed):
            self._conditions.set_in_progress(pod.uid, pod.metadata.generation)
        elif (done := self._conditions.clear_in_progress(pod.uid)) is not None:
            text = resize_message("completed", pod, done.observed_generation)
            self._record(pod, EventType.NORMAL, COMPLETED, text)

    def failed(self, pod: Pod, message: str) -> None:
        """Report why the resize of *pod* could not be applied; it stays in progress."""
        if self._conditions.set_in_progress(pod.uid, pod.metadata.generation, message):
            condition = self._conditions.of(pod.uid).in_progress
            generation = condition.observed_generation if condition is not None else pod.metadata.generation
            self._record(pod, EventType.WARNING, FAILED, resize_message("error", pod, generation, message))

    def _in_progress(self, pod: Pod, observed: RuntimePod | None) -> bool:
        """Return whether the pod or a running container has other cpu or memory than it was allocated."""
        own = self.pod_actuated(pod.uid)
        if self._rules.pod_level and own is not None and not same_amounts(own, pod.spec.resources):
            return True
        for _, container in resizable_containers(pod, init=self._rules.init_containers):
            run = observed.newest(container.name) if observed is not None else None
            actuated = self.actuated(pod.uid, container.name)
            if run is None or run.state is not ContainerState.RUNNING or actuated is None:
                continue
            effective = with_effective_limits(pod, container) if self._rules.pod_level else container
            if not same_amounts(actuated, effective.resources):
                return True
        return False

    # --- helpers --------------------------------------------------------------------------------------------

    def _resources(self, pod: Pod) -> PodResources:
        containers = resizable_containers(pod, init=self._rules.init_containers)
        own = pod.spec.resources if self._rules.pod_level else None
        return PodResources({container.name: container.resources for _, container in containers}, own)

    def _record(self, pod: Pod, kind: EventType, reason: str, message: str) -> None:
        self._recorder().record(pod.reference(), kind, reason, message)

    def _count_pending(self) -> Mapping[tuple[str, ...], float]:
        counts: dict[tuple[str, ...], float] = {("deferred",): 0.0, ("infeasible",): 0.0}
        for resize in self._conditions.all():
            if resize.pending is not None:
                counts[resize.pending.reason.lower(),] += 1
        return counts

    def _count_in_progress(self) -> Mapping[tuple[str, ...], float]:
        counts: dict[tuple[str, ...], float] = {
            (): sum(resize.in_progress is not None for resize in self._conditions.all())
        }
        return counts
