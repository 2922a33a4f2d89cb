"""From what is known of a pod to the stages it goes through: pure, so that each cause has a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from nodeagent.contracts.diagnostics import Stage, StageReport, StageState
from nodeagent.contracts.runtime import ContainerState, RuntimePod
from nodeagent.event_journal import JournalEntry
from nodeagent.model.pod import (
    Container,
    ContainerKind,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodPhase,
    container_field_path,
)
from nodeagent.podworker.state import Phase, WorkerPicture

DONE, WORKING, BLOCKED, WAITING = StageState.DONE, StageState.WORKING, StageState.BLOCKED, StageState.WAITING
ORDER = (Stage.ADMIT, Stage.VOLUMES, Stage.SANDBOX, Stage.PULL, Stage.START, Stage.READY)
"""In which order the agent takes them: images come after the sandbox, whose network and settings a pull may need."""
LAST_WORDS = 160
"""Characters that are shown of a container's termination message."""

_PULL = frozenset({
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
    "RegistryUnavailable", "SignatureValidationFailed",
})  # fmt: skip
_NOT_YET = frozenset({"ContainerCreating", "PodInitializing", ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """Everything that is known of a pod at one moment."""

    pod: Pod
    observed: RuntimePod | None
    worker: WorkerPicture | None
    journal: Sequence[JournalEntry] = ()
    pulling: Mapping[str, tuple[float, bool]] = field(default_factory=dict)
    """Images on their way that this pod waits for: for how many seconds, and whether others go first."""
    deciding: str = ""
    """Which plugin is being asked or told about a pod that is not admitted yet."""
    asking: Mapping[str, float] = field(default_factory=dict)
    """Images whose credentials are asked for still: for how many seconds."""
    pending_volumes: Mapping[str, float] = field(default_factory=dict)
    """Volumes being prepared: for how many seconds."""
    working_seconds: float | None = None
    """How long the worker's step has been going on."""
    now: datetime

    def last(self, *reasons: str, field_path: str = "") -> JournalEntry | None:
        """Return the newest event with one of these reasons, about this part of the pod where one is given."""
        for entry in reversed(self.journal):
            if entry.reason in reasons and (not field_path or entry.field_path == field_path):
                return entry
        return None


def stages_of(facts: PodFacts) -> list[StageReport]:
    """Return every stage, in the order in which they are shown."""
    pod, status = facts.pod, facts.pod.status
    ended = status.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    if ended and facts.observed is None and not status.container_statuses:
        refused = StageReport(
            stage=Stage.ADMIT, state=BLOCKED, at=status.start_time, reason=status.reason, detail=status.message
        )
        return [
            refused,
            *(StageReport(stage=each, state=WAITING) for each in Stage if each not in (Stage.ADMIT, Stage.END)),
        ]
    found = {
        Stage.ADMIT: _admit(facts),
        Stage.VOLUMES: _volumes(facts),
        Stage.SANDBOX: _sandbox(facts),
        Stage.PULL: _pull(facts),
        Stage.START: _start(facts),
        Stage.READY: _ready(facts),
    }
    if (facts.worker is not None and facts.worker.termination is not None) or ended or pod.metadata.deletion_timestamp:
        found[Stage.END] = _end(facts)
        found = {stage: report for stage, report in found.items() if stage is Stage.END or report.state is not WORKING}
    else:
        _only_the_first_works(found)
    return [found[stage] for stage in Stage if stage in found]


def blocking(stages: Sequence[StageReport]) -> StageReport | None:
    """Return the stage that a pod is held up at; ``None`` when there is none."""
    by_name = {report.stage: report for report in stages}
    if (end := by_name.get(Stage.END)) is not None:
        return None if end.state is DONE else end
    return next((by_name[stage] for stage in ORDER if by_name[stage].state is not DONE), None)


def _only_the_first_works(found: dict[Stage, StageReport]) -> None:
    """Let what comes after an unfinished stage wait, unless it tells of something else that went wrong."""
    open_ = [stage for stage in ORDER if found[stage].state is not DONE]
    for stage in open_[1:]:
        if found[stage].state is WORKING:
            found[stage] = StageReport(stage=stage, state=WAITING)


# --- stage by stage -------------------------------------------------------------------------------------------


def _admit(facts: PodFacts) -> StageReport:
    worker = facts.worker
    if worker is None:
        text = "the node is still deciding about the pod" + (f", {facts.deciding}" if facts.deciding else "")
        return StageReport(stage=Stage.ADMIT, state=WORKING, detail=text)
    if worker.queued:
        text = "a pod of the same name still ends; this one starts after it"
        return StageReport(stage=Stage.ADMIT, state=WORKING, detail=text)
    if worker.error.startswith("pod cannot be run: "):
        text = worker.error.removeprefix("pod cannot be run: ")
        return StageReport(stage=Stage.ADMIT, state=BLOCKED, reason=worker.reason, detail=text)
    return StageReport(stage=Stage.ADMIT, state=DONE, at=facts.pod.status.start_time)


def _volumes(facts: PodFacts) -> StageReport:
    mounted = {mount.name for _, container in facts.pod.containers() for mount in container.volume_mounts or ()}
    names = [volume.name for volume in facts.pod.spec.volumes or () if volume.name in mounted]
    worker = facts.worker
    if worker is not None and worker.reason == "FailedMount" and worker.error:
        entry = facts.last("FailedMount")
        at = entry.first if entry else None
        return StageReport(stage=Stage.VOLUMES, state=BLOCKED, at=at, reason="FailedMount", detail=worker.error)
    if not names:
        return StageReport(stage=Stage.VOLUMES, state=DONE, detail="none are mounted")
    if facts.pending_volumes:
        text = ", ".join(f"{name} for {seconds:.0f} s" for name, seconds in facts.pending_volumes.items())
        return StageReport(stage=Stage.VOLUMES, state=WORKING, detail=f"being prepared: {text}")
    if facts.observed is not None and facts.observed.sandboxes:
        at = _moment(facts.observed.sandboxes[-1].created_at)
        return StageReport(stage=Stage.VOLUMES, state=DONE, at=at, detail=f"{len(names)} mounted")
    return StageReport(stage=Stage.VOLUMES, state=WORKING, detail=f"{len(names)} to prepare")


def _sandbox(facts: PodFacts) -> StageReport:
    worker, observed = facts.worker, facts.observed
    newest = observed.sandboxes[0] if observed is not None and observed.sandboxes else None
    if newest is not None and newest.ready:
        text = f"address {newest.ips[0]}" if newest.ips else "network of the node"
        return StageReport(stage=Stage.SANDBOX, state=DONE, at=_moment(newest.created_at), detail=text)
    if worker is not None and worker.network_problem:
        entry = facts.last("NetworkNotReady")
        return StageReport(
            stage=Stage.SANDBOX,
            state=BLOCKED,
            at=entry.first if entry else None,
            reason="NetworkNotReady",
            detail=worker.network_problem,
        )
    if worker is not None and worker.error and worker.reason != "FailedMount":
        entry = facts.last("FailedCreatePodSandBox", "FailedCreatePodContainer", "FailedPodSandBoxStatus")
        reason = worker.reason if worker.reason in ("RuntimeUnavailable", "ApiUnavailable") else ""
        reason = reason or (entry.reason if entry else worker.reason)
        at = entry.first if entry else None
        return StageReport(stage=Stage.SANDBOX, state=BLOCKED, at=at, reason=reason, detail=worker.error)
    text = f"being made for {facts.working_seconds:.0f} s" if facts.working_seconds is not None else "to be made"
    return StageReport(stage=Stage.SANDBOX, state=WORKING, detail=text)


def _pull(facts: PodFacts) -> StageReport:
    failing = [
        (s, s.state.waiting)
        for _, _, s in _containers(facts)
        if s and s.state.waiting and s.state.waiting.reason in _PULL
    ]
    if failing:
        first, waiting = failing[0]
        entry = facts.last("Failed", field_path=_field_path(facts.pod, first.name))
        return StageReport(
            stage=Stage.PULL,
            state=BLOCKED,
            at=entry.first if entry else None,
            reason=waiting.reason,
            detail=waiting.message or waiting.reason,
            containers=[status.name for status, _ in failing],
        )
    if facts.asking and not facts.pulling:
        parts = [f"{image} for {seconds:.0f} s" for image, seconds in facts.asking.items()]
        text = f"asking pull secrets and credential providers about {', '.join(parts)}"
        return StageReport(stage=Stage.PULL, state=WORKING, detail=text)
    if facts.pulling:
        parts = [
            f"{image} waits for {seconds:.0f} s until other pulls are done" if waits else f"{image} for {seconds:.0f} s"
            for image, (seconds, waits) in facts.pulling.items()
        ]
        return StageReport(stage=Stage.PULL, state=WORKING, detail=f"being pulled: {', '.join(parts)}")
    made = {container.name for container in (facts.observed.containers if facts.observed else ())}
    made |= {
        c.name for _, c, s in _containers(facts) if s and s.state.waiting and s.state.waiting.reason not in _NOT_YET
    }
    missing = [c.name for kind, c, _ in _containers(facts) if kind is ContainerKind.REGULAR and c.name not in made]
    if missing and not _initializing(facts):
        return StageReport(stage=Stage.PULL, state=WORKING, detail="images to look up", containers=missing)
    entry = facts.last("Pulled")
    return StageReport(stage=Stage.PULL, state=DONE, at=entry.last if entry else None, detail="images are there")


def _start(facts: PodFacts) -> StageReport:
    for kind, container, status in _containers(facts):
        waiting = status.state.waiting if status else None
        if status is None or waiting is None or waiting.reason in _NOT_YET | _PULL:
            continue
        entry = facts.last(
            "Failed", "BackOff", "FailedPostStartHook", field_path=container_field_path(kind, container.name)
        )
        last = status.last_state.terminated
        ended = f"; it last ended with {_exit(last)}" if last is not None else ""
        return StageReport(
            stage=Stage.START,
            state=BLOCKED,
            at=entry.first if entry else None,
            reason=waiting.reason,
            detail=f"{waiting.message or waiting.reason}{ended}",
            containers=[container.name],
        )
    if (first := _initializing(facts)) is not None:
        running = first.state.running
        failed = first.state.terminated or first.last_state.terminated
        text = f"init container {first.name} runs" if running else f"init container {first.name} is next"
        if failed is not None and failed.exit_code:
            text += f"; it last ended with {_exit(failed)}"
        return StageReport(
            stage=Stage.START,
            state=WORKING,
            at=running.started_at if running else None,
            detail=text,
            containers=[first.name],
        )
    regular = [(c, s) for kind, c, s in _containers(facts) if kind is ContainerKind.REGULAR]
    idle = [c.name for c, s in regular if s is None or (s.state.running is None and s.state.terminated is None)]
    if idle:
        return StageReport(stage=Stage.START, state=WORKING, detail="containers to start", containers=idle)
    times = [s.state.running.started_at for _, s in regular if s and s.state.running and s.state.running.started_at]
    return StageReport(stage=Stage.START, state=DONE, at=max(times, default=None), detail=f"{len(times)} running")


def _ready(facts: PodFacts) -> StageReport:
    conditions = {condition.type: condition for condition in facts.pod.status.conditions or ()}
    ready = conditions.get("Ready")
    if ready is not None and ready.status == "True":
        return StageReport(stage=Stage.READY, state=DONE, at=ready.last_transition_time)
    at = ready.last_transition_time if ready is not None else None
    if ready is not None and ready.reason == "ReadinessGatesNotReady":
        return StageReport(stage=Stage.READY, state=BLOCKED, at=at, reason=ready.reason, detail=ready.message)
    unready = [
        (k, c) for k, c, s in _containers(facts) if k is ContainerKind.REGULAR and s and s.state.running and not s.ready
    ]
    for kind, container in unready:
        entry = facts.last("Unhealthy", field_path=container_field_path(kind, container.name))
        if entry is not None:
            text = f"{entry.note.strip()} ({entry.count} times, last {entry.last:%H:%M:%S})"
            return StageReport(
                stage=Stage.READY,
                state=BLOCKED,
                at=entry.first,
                reason="Unhealthy",
                detail=text,
                containers=[container.name],
            )
    names = [container.name for _, container in unready]
    text = "probes have not succeeded yet" if names else "containers to become ready"
    return StageReport(stage=Stage.READY, state=WORKING, at=at, detail=text, containers=names)


def _end(facts: PodFacts) -> StageReport:
    pod, worker = facts.pod, facts.worker
    termination = worker.termination if worker is not None else None
    why = termination.reason.value if termination is not None else ""
    message = (termination.message if termination else "") or pod.status.message
    if worker is None or worker.phase >= Phase.TERMINATED:
        text = ": ".join(part for part in (pod.status.phase, pod.status.reason or why, message) if part)
        return StageReport(stage=Stage.END, state=DONE, reason=pod.status.reason or why, detail=text)
    if worker.error:
        return StageReport(
            stage=Stage.END,
            state=BLOCKED,
            at=pod.metadata.deletion_timestamp,
            reason=worker.reason,
            detail=worker.error,
        )
    alive = [c.name for c in (facts.observed.containers if facts.observed else ()) if c.state is ContainerState.RUNNING]
    text = f"ends ({why}{': ' + message if message else ''}); still running: {', '.join(alive) or 'nothing'}"
    return StageReport(stage=Stage.END, state=WORKING, at=pod.metadata.deletion_timestamp, reason=why, detail=text)


# --- helpers --------------------------------------------------------------------------------------------------


def _containers(facts: PodFacts) -> list[tuple[ContainerKind, Container, ContainerStatus | None]]:
    status = facts.pod.status
    known = {
        each.name: each
        for group in (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
        for each in group or ()
    }
    return [
        (kind, container, known.get(container.name))
        for kind, container in facts.pod.containers()
        if kind is not ContainerKind.EPHEMERAL
    ]


def _initializing(facts: PodFacts) -> ContainerStatus | None:
    """Return the init container that the pod is at, ``None`` when they are through."""
    for kind, container, status in _containers(facts):
        if kind is ContainerKind.INIT and status is not None:
            done = status.started if container.restartable_init else status.ready
            if not done:
                return status
    return None


def _exit(end: ContainerStateTerminated) -> str:
    """Return how a container ended, with the first words of its message: it may be long, and speak of much else."""
    words = " ".join(end.message.split())
    said = words if len(words) <= LAST_WORDS else f"{words[:LAST_WORDS]}…"
    return f"exit code {end.exit_code} ({': '.join(part for part in (end.reason, said) if part)})"


def _field_path(pod: Pod, name: str) -> str:
    return next(container_field_path(kind, c.name) for kind, c in pod.containers() if c.name == name)


def _moment(nanoseconds: int) -> datetime | None:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC) if nanoseconds else None
