"""Pod diagnostics: ``nodeagent why``, and the messages of conditions of pods that are not ready for long."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from nodeagent.base import identity
from nodeagent.contracts.context import StatsContext
from nodeagent.contracts.diagnostics import (
    WHY_QUERY,
    PodDeviceLine,
    PodEvent,
    PodExplanation,
    PodLine,
    Stage,
    StageReport,
    StageState,
    WhyRequest,
)
from nodeagent.contracts.images import ProgressReportingImagePuller
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.persistent_volumes import StatefulVolumeManager
from nodeagent.contracts.pods import find_pod
from nodeagent.contracts.volumes import ProgressReportingVolumeManager
from nodeagent.event_journal import EventJournal
from nodeagent.model.pod import Pod, PodPhase, PodStatus
from nodeagent.plugin_report import decision_line
from nodeagent.pluginmanager import PluginManager
from nodeagent.podworker.remedies import remedy
from nodeagent.podworker.stages import PodDiagnosticInputs, blocking, stages_of
from nodeagent.podworker.workers import PodWorkers

LONG_SECONDS = 30.0
"""Time after which the conditions of an unready pod state the cause; most waits are shorter."""
NOTE_CHARACTERS = 512
_ADMITTING = frozenset({"nodeagent_admit_pod", "nodeagent_pod_admitted"})


class Explainer:
    """Combines the state of a pod from all components of the agent."""

    def __init__(
        self, context: StatsContext, workers: PodWorkers, journal: EventJournal, plugins: PluginManager
    ) -> None:
        self._context, self._workers, self._journal, self._plugins = context, workers, journal, plugins
        self._notes: dict[str, tuple[Stage, str, str]] = {}

    def local_queries(self) -> Sequence[LocalQuery]:
        """Return the local queries."""
        return (LocalQuery(WHY_QUERY, WhyRequest, self.why),)

    async def why(self, request: WhyRequest) -> PodExplanation:
        """Return the explanation of the requested pod.

        :raises ValueError: the pod is not on this node.
        """
        pod = find_pod(self._context.pods, request.namespace, request.name)
        if pod is None:
            raise ValueError(self._unknown(request))
        return self.explain(pod)

    def explain(self, pod: Pod) -> PodExplanation:
        """Return the explanation of *pod*."""
        inputs = self._inputs(pod)
        stages = stages_of(inputs)
        at = blocking(stages)
        ended = inputs.pod.status.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
        plugin = self._plugin(pod, at)
        source = (pod.metadata.annotations or {}).get(identity.current().label("config.source"), "api")
        return PodExplanation(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            source=source,
            phase=inputs.pod.status.phase or PodPhase.PENDING,
            ready=at is None and not ended,
            stages=stages,
            blocking=at.stage if at else None,
            blocked=at is not None and at.state is StageState.BLOCKED,
            reason=at.reason if at else "",
            cause=_cause(at) if at else "",
            plugin=plugin,
            next_try_seconds=None if at is None or ended else self._seconds_to_retry(inputs, at),
            remedy=remedy(at.reason, plugin) if at and at.state is StageState.BLOCKED else "",
            events=[
                PodEvent(
                    type=entry.type,
                    reason=entry.reason,
                    note=entry.note,
                    count=entry.count,
                    first=entry.first,
                    last=entry.last,
                    field_path=entry.field_path,
                )
                for entry in inputs.journal
            ],
            devices=list(self._devices(pod)),
            decisions=[decision_line(each) for each in self._plugins.decisions.about(pod.full_name)],
        )

    def _devices(self, pod: Pod) -> Iterator[PodDeviceLine]:
        claims = self._context.claims
        for _, container in pod.containers():
            held = list(self._context.devices.health(pod.uid, container.name).items())
            if claims is not None:
                held += [(each.claim, each.devices) for each in claims.devices(pod, container)]
            for name, devices in held:
                for device in devices:
                    yield PodDeviceLine(
                        container=container.name,
                        resource=name,
                        id=device.device_id,
                        health=device.health,
                        message=device.message,
                    )

    def lines(self) -> list[PodLine]:
        """Return one line per pod of the node, blocked pods first."""
        return sorted(map(self._line, self._context.pods.all()), key=_urgency)

    def note(self, pod: Pod) -> str:
        """Return the cause for the condition of a pod that has not been ready for long; empty for other pods.

        The text changes only with stage or reason, so that causes with varying ports or times do not cause repeated
        patches.
        """
        ready = next((c for c in pod.status.conditions or () if c.type == "Ready"), None)
        since = ready.last_transition_time if ready is not None and ready.status != "True" else None
        if since is None or (self._context.clock.wall() - since).total_seconds() < LONG_SECONDS:
            self._notes.pop(pod.uid, None)
            return ""
        at = blocking(stages_of(self._inputs(pod, status_known=True)))
        if at is None or at.state is not StageState.BLOCKED or at.stage is Stage.END:
            self._notes.pop(pod.uid, None)
            return ""
        known = self._notes.get(pod.uid)
        if known is None or known[:2] != (at.stage, at.reason):
            known = self._notes[pod.uid] = (at.stage, at.reason, f"{at.stage}: {_cause(at)}"[:NOTE_CHARACTERS])
        return known[2]

    def forget(self, uid: str) -> None:
        """Drop a removed pod."""
        self._notes.pop(uid, None)
        self._journal.forget(uid)

    # --- helpers --------------------------------------------------------------------------------------------

    def _inputs(self, pod: Pod, *, status_known: bool = False) -> PodDiagnosticInputs:
        context, now = self._context, self._context.clock.now()
        if not status_known:
            pod = msgspec.structs.replace(pod, status=context.pods.status(pod.uid) or pod.status)
        worker = self._workers.snapshot(pod.uid)
        puller, volumes = context.puller, context.volumes
        pulls = puller.pulls() if isinstance(puller, ProgressReportingImagePuller) else ()
        pending = volumes.pending(pod.uid) if isinstance(volumes, ProgressReportingVolumeManager) else {}
        states = volumes.states(pod.uid) if isinstance(volumes, StatefulVolumeManager) else ()
        since = worker.working_since if worker is not None else None
        return PodDiagnosticInputs(
            pod=pod,
            observed=context.pods.observed(pod.uid),
            worker=worker,
            journal=self._journal.of(pod.uid),
            pulling={
                p.image: (now - p.since, p.queued)
                for p in pulls
                if pod.full_name in p.pods and not p.resolving_credentials
            },
            deciding=self._deciding(pod) if worker is None else "",
            calling=self._calling(pod) if worker is not None else "",
            resolving={p.image: now - p.since for p in pulls if pod.full_name in p.pods and p.resolving_credentials},
            pending_volumes={name: now - pending_since for name, pending_since in pending.items()},
            volumes=states,
            monotonic=now,
            working_seconds=None if since is None else now - since,
            now=context.clock.wall(),
        )

    def _deciding(self, pod: Pod) -> str:
        """Return the plugin that is deciding on the pod's admission, or on that of a pod before it."""
        for each in self._plugins.calls.in_flight:
            if each.hook in _ADMITTING and each.subject == pod.full_name:
                return f"waiting for plugin {each.plugin} ({each.hook}) for {time.monotonic() - each.since:.0f} s"
        if problem := self._workers.admission_problem(pod.uid):
            return f"waiting for the next attempt: {problem}"
        for each in self._plugins.calls.in_flight:
            if each.hook in _ADMITTING:
                since = f"{time.monotonic() - each.since:.0f} s"
                return f"waiting for plugin {each.plugin} ({each.hook}, pod {each.subject}) for {since}"
        return ""

    def _calling(self, pod: Pod) -> str:
        """Return the third-party plugin of which a call for the pod is in progress."""
        for each in self._plugins.calls.in_flight:
            if each.subject == pod.full_name and not self._plugins.is_bundled(each.plugin):
                return f"waiting for plugin {each.plugin} ({each.hook}) for {time.monotonic() - each.since:.0f} s"
        return ""

    def _seconds_to_retry(self, inputs: PodDiagnosticInputs, at: StageReport) -> float | None:
        worker = inputs.worker
        if worker is None:
            return None
        if worker.working_since is not None:
            return 0.0
        due = None if worker.due_at is None else max(0.0, worker.due_at - self._context.clock.now())
        puller = self._context.puller
        if at.stage is Stage.PULL and isinstance(puller, ProgressReportingImagePuller):
            held = [
                puller.backoff_seconds_left(inputs.pod, c)
                for _, c in inputs.pod.containers()
                if c.name in at.containers
            ]
            return max([due or 0.0, min(held, default=0.0)])
        if at.stage is Stage.READY:
            return None  # The period of the probe applies.
        return due

    def _plugin(self, pod: Pod, at: StageReport | None) -> str:
        """Return the plugin that rejected or blocked the pod, if one did."""
        if at is None or at.stage is not Stage.ADMIT or at.state is not StageState.BLOCKED:
            return ""
        for decision in reversed(self._plugins.decisions.about(pod.full_name)):
            if decision.hook in ("nodeagent_admit_pod", "nodeagent_permit_pod") and not decision.skipped:
                return decision.plugin
        return ""

    def _unknown(self, request: WhyRequest) -> str:
        pending = self._workers.pending_sources
        text = f'pod "{request.namespace}/{request.name}" not found on this node'
        if pending:
            return f"{text}, but these sources have not published yet: {', '.join(pending)}; {remedy('SourceSilent')}"
        others = [pod.namespace for pod in self._context.pods.all() if pod.name == request.name]
        hint = f"; a pod of this name exists in namespace {', '.join(sorted(set(others)))}" if others else ""
        return f"{text}; it is scheduled to another node, or was deleted{hint}"

    def _line(self, pod: Pod) -> PodLine:
        explanation = self.explain(pod)
        status = self._context.pods.status(pod.uid) or pod.status
        statuses = status.container_statuses or ()
        return PodLine(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            phase=explanation.phase,
            ready=explanation.ready,
            containers_ready=sum(status.ready for status in statuses),
            containers=len(pod.spec.containers),
            restarts=sum(status.restart_count for status in statuses),
            stage=explanation.blocking,
            blocked=explanation.blocked,
            reason=explanation.reason,
            cause=explanation.cause or (_failure(status) if explanation.phase == PodPhase.FAILED else ""),
            started_at=status.start_time,
        )


def _failure(status: PodStatus) -> str:
    """Return the cause of a failed pod."""
    if status.reason or status.message:
        return ": ".join(part for part in (status.reason, status.message) if part)
    groups = (status.init_container_statuses, status.container_statuses)
    ends = ((each.name, each.state.terminated) for group in groups for each in group or ())
    return ", ".join(f"{name} exited with code {end.exit_code}" for name, end in ends if end and end.exit_code)


def _cause(at: StageReport) -> str:
    return f"{_joined(at.containers)}{at.detail}"


def _joined(containers: Iterable[str]) -> str:
    names = ", ".join(containers)
    return f"{names}: " if names else ""


def _urgency(line: PodLine) -> tuple[bool, bool, str, str]:
    return not line.blocked, line.ready or line.stage is None, line.namespace, line.name
