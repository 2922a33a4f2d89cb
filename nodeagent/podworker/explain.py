"""Answers why a pod is where it is: ``nodeagent why``, and what a condition's message says of a long wait."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from nodeagent.base import identity
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.diagnostics import (
    WHY_QUERY,
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
from nodeagent.contracts.pods import find_pod
from nodeagent.contracts.volumes import ProgressReportingVolumeManager
from nodeagent.event_journal import EventJournal
from nodeagent.model.pod import Pod, PodPhase, PodStatus
from nodeagent.pluginmanager import PluginManager
from nodeagent.podworker.remedies import remedy
from nodeagent.podworker.stages import PodFacts, blocking, stages_of
from nodeagent.podworker.workers import PodWorkers

LONG_SECONDS = 30.0
"""How long a pod is not ready before its conditions say why: most waits are over by then."""
NOTE_CHARACTERS = 512
_ADMITTING = frozenset({"nodeagent_admit_pod", "nodeagent_pod_admitted"})


class Explainer:
    """Puts together what the parts of the agent know of a pod."""

    def __init__(
        self, context: AgentContext, workers: PodWorkers, journal: EventJournal, plugins: PluginManager
    ) -> None:
        self._context, self._workers, self._journal, self._plugins = context, workers, journal, plugins
        self._notes: dict[str, tuple[Stage, str, str]] = {}

    def local_queries(self) -> Sequence[LocalQuery]:
        """Return what commands may ask."""
        return (LocalQuery(WHY_QUERY, WhyRequest, self.why),)

    async def why(self, request: WhyRequest) -> PodExplanation:
        """Return where the pod is on its way.

        :raises ValueError: this node has no such pod.
        """
        pod = find_pod(self._context.pods, request.namespace, request.name)
        if pod is None:
            raise ValueError(self._unknown(request))
        return self.explain(pod)

    def explain(self, pod: Pod) -> PodExplanation:
        """Return where *pod* is on its way."""
        facts = self._facts(pod)
        stages = stages_of(facts)
        at = blocking(stages)
        ended = facts.pod.status.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
        plugin = self._plugin(pod, at)
        source = (pod.metadata.annotations or {}).get(identity.current().label("config.source"), "api")
        return PodExplanation(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            source=source,
            phase=facts.pod.status.phase or PodPhase.PENDING,
            ready=at is None and not ended,
            stages=stages,
            blocking=at.stage if at else None,
            blocked=at is not None and at.state is StageState.BLOCKED,
            reason=at.reason if at else "",
            cause=_cause(at) if at else "",
            plugin=plugin,
            next_try_seconds=None if at is None or ended else self._next_try(facts, at),
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
                for entry in facts.journal
            ],
        )

    def lines(self) -> list[PodLine]:
        """Return every pod of the node in one line, those that something is wrong with first."""
        return sorted(map(self._line, self._context.pods.all()), key=_urgency)

    def note(self, pod: Pod) -> str:
        """Return what keeps *pod* from being ready for long already, for its condition; empty when nothing does.

        The text stays the same while stage and reason do, so that a cause which names ever new ports or times does
        not make ever new patches.
        """
        ready = next((c for c in pod.status.conditions or () if c.type == "Ready"), None)
        since = ready.last_transition_time if ready is not None and ready.status != "True" else None
        if since is None or (self._context.clock.wall() - since).total_seconds() < LONG_SECONDS:
            self._notes.pop(pod.uid, None)
            return ""
        at = blocking(stages_of(self._facts(pod, status_known=True)))
        if at is None or at.state is not StageState.BLOCKED or at.stage is Stage.END:
            self._notes.pop(pod.uid, None)
            return ""
        known = self._notes.get(pod.uid)
        if known is None or known[:2] != (at.stage, at.reason):
            known = self._notes[pod.uid] = (at.stage, at.reason, f"{at.stage}: {_cause(at)}"[:NOTE_CHARACTERS])
        return known[2]

    def forget(self, uid: str) -> None:
        """Drop a pod that is gone."""
        self._notes.pop(uid, None)
        self._journal.forget(uid)

    # --- helpers --------------------------------------------------------------------------------------------

    def _facts(self, pod: Pod, *, status_known: bool = False) -> PodFacts:
        context, now = self._context, self._context.clock.now()
        if not status_known:
            pod = msgspec.structs.replace(pod, status=context.pods.status(pod.uid) or pod.status)
        worker = self._workers.picture(pod.uid)
        puller, volumes = context.puller, context.volumes
        pulls = puller.pulls() if isinstance(puller, ProgressReportingImagePuller) else ()
        pending = volumes.pending(pod.uid) if isinstance(volumes, ProgressReportingVolumeManager) else {}
        since = worker.working_since if worker is not None else None
        return PodFacts(
            pod=pod,
            observed=context.pods.observed(pod.uid),
            worker=worker,
            journal=self._journal.of(pod.uid),
            pulling={
                p.image: (now - p.since, p.queued)
                for p in pulls
                if pod.full_name in p.pods and not p.resolving_credentials
            },
            deciding=self._deciding() if worker is None else "",
            asking={p.image: now - p.since for p in pulls if pod.full_name in p.pods and p.resolving_credentials},
            pending_volumes={name: now - began for name, began in pending.items()},
            working_seconds=None if since is None else now - since,
            now=context.clock.wall(),
        )

    def _deciding(self) -> str:
        """Return which plugin keeps pods from being admitted; they are asked about one pod after the other."""
        for each in self._plugins.in_flight:
            if each.hook in _ADMITTING:
                return (
                    f"plugin {each.plugin} takes its time ({each.hook}, {time.monotonic() - each.since:.0f} s by now)"
                )
        return ""

    def _next_try(self, facts: PodFacts, at: StageReport) -> float | None:
        worker = facts.worker
        if worker is None:
            return None
        if worker.working_since is not None:
            return 0.0
        due = None if worker.due_at is None else max(0.0, worker.due_at - self._context.clock.now())
        puller = self._context.puller
        if at.stage is Stage.PULL and isinstance(puller, ProgressReportingImagePuller):
            held = [
                puller.backoff_seconds_left(facts.pod, c) for _, c in facts.pod.containers() if c.name in at.containers
            ]
            return max([due or 0.0, min(held, default=0.0)])
        if at.stage is Stage.READY:
            return None  # the probe's own period tells
        return due

    def _plugin(self, pod: Pod, at: StageReport | None) -> str:
        """Return whose decision the first stage is, where a plugin took it."""
        if at is None or at.stage is not Stage.ADMIT or at.state is not StageState.BLOCKED:
            return ""
        for decision in reversed(self._plugins.decisions):
            asked = decision.hook in ("nodeagent_admit_pod", "nodeagent_permit_pod")
            if asked and decision.subject == pod.full_name:
                return decision.plugin
        return ""

    def _unknown(self, request: WhyRequest) -> str:
        silent = self._workers.unheard_sources
        text = f'no source wants the pod "{request.namespace}/{request.name}" on this node'
        if silent:
            return f"{text} so far, and some have told nothing yet: {', '.join(silent)}; {remedy('SourceSilent')}"
        others = [pod.namespace for pod in self._context.pods.all() if pod.name == request.name]
        hint = f"; one of this name is in {', '.join(sorted(set(others)))}" if others else ""
        return f"{text}; it is not scheduled here, or is gone already{hint}"

    def _line(self, pod: Pod) -> PodLine:
        found = self.explain(pod)
        status = self._context.pods.status(pod.uid) or pod.status
        statuses = status.container_statuses or ()
        return PodLine(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            phase=found.phase,
            ready=found.ready,
            containers_ready=sum(status.ready for status in statuses),
            containers=len(pod.spec.containers),
            restarts=sum(status.restart_count for status in statuses),
            stage=found.blocking,
            blocked=found.blocked,
            reason=found.reason,
            cause=found.cause or (_failure(status) if found.phase == PodPhase.FAILED else ""),
            started_at=status.start_time,
        )


def _failure(status: PodStatus) -> str:
    """Return why a pod has failed that is held up nowhere any more."""
    if status.reason or status.message:
        return ": ".join(part for part in (status.reason, status.message) if part)
    groups = (status.init_container_statuses, status.container_statuses)
    ends = ((each.name, each.state.terminated) for group in groups for each in group or ())
    return ", ".join(f"{name} ended with exit code {end.exit_code}" for name, end in ends if end and end.exit_code)


def _cause(at: StageReport) -> str:
    return f"{_joined(at.containers)}{at.detail}"


def _joined(containers: Iterable[str]) -> str:
    names = ", ".join(containers)
    return f"{names}: " if names else ""


def _urgency(line: PodLine) -> tuple[bool, bool, str, str]:
    return not line.blocked, line.ready or line.stage is None, line.namespace, line.name
