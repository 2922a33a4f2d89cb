"""Stages of a pod, derived from its state in the agent. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.contracts.diagnostics import Stage, StageReport, StageState
from nodeagent.contracts.persistent_volumes import VolumeState
from nodeagent.contracts.runtime import ContainerState, RuntimePod
from nodeagent.errors import ClaimError, DevicesNotReady
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
from nodeagent.podworker.state import BLOCKED_PREFIX, Phase, WorkerSnapshot

DONE, WORKING, BLOCKED, WAITING = StageState.DONE, StageState.WORKING, StageState.BLOCKED, StageState.WAITING
ORDER = (Stage.ADMIT, Stage.VOLUMES, Stage.SANDBOX, Stage.PULL, Stage.START, Stage.READY)
"""Execution order: a pull follows the sandbox, whose configuration it may need."""
MAX_MESSAGE_CHARACTERS = 160
"""Number of characters displayed of a container's termination message."""

_PULL = frozenset({
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
    "RegistryUnavailable", "SignatureValidationFailed",
})  # fmt: skip
_AFTER_VOLUMES = frozenset({DevicesNotReady.reason, ClaimError.reason})
"""Reasons of steps between the volumes and the sandbox."""
_BEFORE_SANDBOX = frozenset({"RuntimeUnavailable", "ApiUnavailable", *_AFTER_VOLUMES})
_NOT_YET = frozenset({"ContainerCreating", "PodInitializing", ""})


class PodDiagnosticInputs(Struct, frozen=True, kw_only=True):
    """Inputs of the stages: the state of a pod at one time."""

    pod: Pod
    observed: RuntimePod | None
    worker: WorkerSnapshot | None
    journal: Sequence[JournalEntry] = ()
    pulling: Mapping[str, tuple[float, bool]] = field(default_factory=dict)
    """Pulls that this pod waits for, by image: duration in seconds, and whether the pull is queued."""
    deciding: str = ""
    """Message about the plugin that is deciding on the admission, if any."""
    calling: str = ""
    """Message about the plugin that the sync in progress is waiting for, if any."""
    resolving: Mapping[str, float] = field(default_factory=dict)
    """Images whose credentials are being resolved: duration in seconds."""
    pending_volumes: Mapping[str, float] = field(default_factory=dict)
    volumes: Sequence[VolumeState] = ()
    """States of the pod's volumes; empty if the volume manager has none."""
    monotonic: float = 0.0
    """Monotonic time of the states."""
    """Volumes that are being set up: duration in seconds."""
    working_seconds: float | None = None
    """Duration of the sync in progress."""
    now: datetime

    def last(self, *reasons: str, field_path: str = "") -> JournalEntry | None:
        """Return the latest event with one of *reasons*, optionally limited to *field_path*."""
        for entry in reversed(self.journal):
            if entry.reason in reasons and (not field_path or entry.field_path == field_path):
                return entry
        return None


def stages_of(inputs: PodDiagnosticInputs) -> list[StageReport]:
    """Return all stages in display order."""
    pod, status = inputs.pod, inputs.pod.status
    ended = status.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    if ended and inputs.observed is None and not status.container_statuses:
        rejected = StageReport(
            stage=Stage.ADMIT, state=BLOCKED, at=status.start_time, reason=status.reason, detail=status.message
        )
        return [
            rejected,
            *(StageReport(stage=each, state=WAITING) for each in Stage if each not in (Stage.ADMIT, Stage.END)),
        ]
    reports = {
        Stage.ADMIT: _admit(inputs),
        Stage.VOLUMES: _volumes(inputs),
        Stage.SANDBOX: _sandbox(inputs),
        Stage.PULL: _pull(inputs),
        Stage.START: _start(inputs),
        Stage.READY: _ready(inputs),
    }
    if (
        (inputs.worker is not None and inputs.worker.termination is not None)
        or ended
        or pod.metadata.deletion_timestamp
    ):
        reports[Stage.END] = _terminate(inputs)
        reports = {
            stage: report for stage, report in reports.items() if stage is Stage.END or report.state is not WORKING
        }
    else:
        _mark_later_stages_waiting(reports, inputs.calling)
    return [reports[stage] for stage in Stage if stage in reports]


def blocking(stages: Sequence[StageReport]) -> StageReport | None:
    """Return the first stage that is not done; ``None`` if there is none."""
    by_name = {report.stage: report for report in stages}
    if (end := by_name.get(Stage.END)) is not None:
        return None if end.state is DONE else end
    return next((by_name[stage] for stage in ORDER if by_name[stage].state is not DONE), None)


def _mark_later_stages_waiting(reports: dict[Stage, StageReport], calling: str) -> None:
    """Mark stages in progress after the first unfinished one as waiting; failed stages are kept.

    :param calling: message about a plugin, added to the first unfinished stage.
    """
    open_ = [stage for stage in ORDER if reports[stage].state is not DONE]
    if calling and open_ and (first := reports[open_[0]]).state is WORKING:
        reports[open_[0]] = msgspec.structs.replace(first, detail=f"{first.detail}, {calling}")
    for stage in open_[1:]:
        if reports[stage].state is WORKING:
            reports[stage] = StageReport(stage=stage, state=WAITING)


# --- stages ---------------------------------------------------------------------------------------------------


def _admit(inputs: PodDiagnosticInputs) -> StageReport:
    worker = inputs.worker
    if worker is None:
        text = "admission of the pod is in progress" + (f", {inputs.deciding}" if inputs.deciding else "")
        return StageReport(stage=Stage.ADMIT, state=WORKING, detail=text)
    if worker.queued:
        text = "waiting for a terminating pod of the same name"
        return StageReport(stage=Stage.ADMIT, state=WORKING, detail=text)
    if worker.error.startswith(BLOCKED_PREFIX):
        text = worker.error.removeprefix(BLOCKED_PREFIX)
        return StageReport(stage=Stage.ADMIT, state=BLOCKED, reason=worker.reason, detail=text)
    return StageReport(stage=Stage.ADMIT, state=DONE, at=inputs.pod.status.start_time)


def _volumes(inputs: PodDiagnosticInputs) -> StageReport:
    used = {mount.name for _, container in inputs.pod.containers() for mount in container.volume_mounts or ()}
    used |= {device.name for _, container in inputs.pod.containers() for device in container.volume_devices or ()}
    names = [volume.name for volume in inputs.pod.spec.volumes or () if volume.name in used]
    worker = inputs.worker
    waiting = [state for state in inputs.volumes if state.volume and state.phase != "Mounted"]
    # Without a claim, a volume that is not mounted yet is only of interest if it failed.
    unready = [state for state in waiting if state.claim or state.error]
    if unready:
        text = "; ".join(volume_text(state, inputs.monotonic) for state in unready)
        failed = any(state.error for state in unready)
        entry = inputs.last("FailedMount", "FailedMapVolume", "FailedAttachVolume") if failed else None
        return StageReport(
            stage=Stage.VOLUMES,
            state=BLOCKED if failed else WORKING,
            at=entry.first if entry else None,
            reason=(entry.reason if entry else "FailedMount") if failed else "",
            detail=text,
        )
    if worker is not None and worker.reason == "FailedMount" and worker.error:
        entry = inputs.last("FailedMount")
        at = entry.first if entry else None
        return StageReport(stage=Stage.VOLUMES, state=BLOCKED, at=at, reason="FailedMount", detail=worker.error)
    if not names:
        return StageReport(stage=Stage.VOLUMES, state=DONE, detail="no volumes mounted")
    if inputs.pending_volumes:
        text = ", ".join(f"{name} for {seconds:.0f} s" for name, seconds in inputs.pending_volumes.items())
        return StageReport(stage=Stage.VOLUMES, state=WORKING, detail=f"setting up: {text}")
    if inputs.observed is not None and inputs.observed.sandboxes:
        at = _timestamp(inputs.observed.sandboxes[-1].created_at)
        return StageReport(stage=Stage.VOLUMES, state=DONE, at=at, detail=f"{len(names)} mounted")
    mounted = {state.volume for state in inputs.volumes if state.phase == "Mounted"}
    if mounted.issuperset(names) or (worker is not None and worker.error and worker.reason in _AFTER_VOLUMES):
        return StageReport(stage=Stage.VOLUMES, state=DONE, detail=f"{len(names)} mounted")
    return StageReport(stage=Stage.VOLUMES, state=WORKING, detail=f"{len(names)} to set up")


def volume_text(state: VolumeState, now: float) -> str:
    """Return claim, driver, phase, call, last error and next attempt of a volume that is not mounted.

    :param now: monotonic time.
    """
    claim = f"claim {state.claim}" if state.claim else ""
    source = ", ".join(filter(None, (claim, state.plugin)))
    parts = [f"{state.volume} ({source}): {state.phase}" if source else f"{state.volume}: {state.phase}"]
    if state.running_since:
        parts.append(f"{state.call} for {now - state.running_since:.0f} s")
    if state.error:
        failed = f"{state.call} failed: {state.error}" if state.call else state.error
        parts.append(f"last error: {state.error}" if state.running_since else failed)
    if state.next_attempt:
        parts.append(f"next attempt in {max(0.0, state.next_attempt - now):.0f} s")
    return ", ".join(parts)


def _sandbox(inputs: PodDiagnosticInputs) -> StageReport:
    worker, observed = inputs.worker, inputs.observed
    newest = observed.sandboxes[0] if observed is not None and observed.sandboxes else None
    if newest is not None and newest.ready:
        text = f"address {newest.ips[0]}" if newest.ips else "host network"
        return StageReport(stage=Stage.SANDBOX, state=DONE, at=_timestamp(newest.created_at), detail=text)
    if worker is not None and worker.network_problem:
        entry = inputs.last("NetworkNotReady")
        return StageReport(
            stage=Stage.SANDBOX,
            state=BLOCKED,
            at=entry.first if entry else None,
            reason="NetworkNotReady",
            detail=worker.network_problem,
        )
    if worker is not None and worker.error and worker.reason != "FailedMount":
        entry = inputs.last("FailedCreatePodSandBox", "FailedCreatePodContainer", "FailedPodSandBoxStatus")
        reason = worker.reason if worker.reason in _BEFORE_SANDBOX else ""
        reason = reason or (entry.reason if entry else worker.reason)
        at = entry.first if entry else None
        return StageReport(stage=Stage.SANDBOX, state=BLOCKED, at=at, reason=reason, detail=worker.error)
    text = f"creating for {inputs.working_seconds:.0f} s" if inputs.working_seconds is not None else "to be created"
    return StageReport(stage=Stage.SANDBOX, state=WORKING, detail=text)


def _pull(inputs: PodDiagnosticInputs) -> StageReport:
    failing = [
        (s, s.state.waiting)
        for _, _, s in _containers(inputs)
        if s and s.state.waiting and s.state.waiting.reason in _PULL
    ]
    if failing:
        first, waiting = failing[0]
        entry = inputs.last("Failed", field_path=_field_path(inputs.pod, first.name))
        return StageReport(
            stage=Stage.PULL,
            state=BLOCKED,
            at=entry.first if entry else None,
            reason=waiting.reason,
            detail=waiting.message or waiting.reason,
            containers=[status.name for status, _ in failing],
        )
    if inputs.resolving and not inputs.pulling:
        parts = [f"{image} for {seconds:.0f} s" for image, seconds in inputs.resolving.items()]
        text = f"resolving credentials of {', '.join(parts)}"
        return StageReport(stage=Stage.PULL, state=WORKING, detail=text)
    if inputs.pulling:
        parts = [
            f"{image} queued for {seconds:.0f} s" if waits else f"{image} for {seconds:.0f} s"
            for image, (seconds, waits) in inputs.pulling.items()
        ]
        return StageReport(stage=Stage.PULL, state=WORKING, detail=f"pulling: {', '.join(parts)}")
    created = {container.name for container in (inputs.observed.containers if inputs.observed else ())}
    created |= {
        c.name for _, c, s in _containers(inputs) if s and s.state.waiting and s.state.waiting.reason not in _NOT_YET
    }
    missing = [c.name for kind, c, _ in _containers(inputs) if kind is ContainerKind.REGULAR and c.name not in created]
    if missing and not _initializing(inputs):
        return StageReport(stage=Stage.PULL, state=WORKING, detail="images to check", containers=missing)
    entry = inputs.last("Pulled")
    return StageReport(stage=Stage.PULL, state=DONE, at=entry.last if entry else None, detail="images are present")


def _start(inputs: PodDiagnosticInputs) -> StageReport:
    for kind, container, status in _containers(inputs):
        waiting = status.state.waiting if status else None
        if status is None or waiting is None or waiting.reason in _NOT_YET | _PULL:
            continue
        entry = inputs.last(
            "Failed", "BackOff", "FailedPostStartHook", field_path=container_field_path(kind, container.name)
        )
        last = status.last_state.terminated
        ended = f"; last exit: {_exit_text(last)}" if last is not None else ""
        return StageReport(
            stage=Stage.START,
            state=BLOCKED,
            at=entry.first if entry else None,
            reason=waiting.reason,
            detail=f"{waiting.message or waiting.reason}{ended}",
            containers=[container.name],
        )
    if (first := _initializing(inputs)) is not None:
        running = first.state.running
        failed = first.state.terminated or first.last_state.terminated
        text = f"init container {first.name} is running" if running else f"init container {first.name} is starting"
        if failed is not None and failed.exit_code:
            text += f"; last exit: {_exit_text(failed)}"
        return StageReport(
            stage=Stage.START,
            state=WORKING,
            at=running.started_at if running else None,
            detail=text,
            containers=[first.name],
        )
    regular = [(c, s) for kind, c, s in _containers(inputs) if kind is ContainerKind.REGULAR]
    idle = [c.name for c, s in regular if s is None or (s.state.running is None and s.state.terminated is None)]
    if idle:
        return StageReport(stage=Stage.START, state=WORKING, detail="containers to start", containers=idle)
    times = [s.state.running.started_at for _, s in regular if s and s.state.running and s.state.running.started_at]
    return StageReport(stage=Stage.START, state=DONE, at=max(times, default=None), detail=f"{len(times)} running")


def _ready(inputs: PodDiagnosticInputs) -> StageReport:
    conditions = {condition.type: condition for condition in inputs.pod.status.conditions or ()}
    ready = conditions.get("Ready")
    if ready is not None and ready.status == "True":
        return StageReport(stage=Stage.READY, state=DONE, at=ready.last_transition_time)
    at = ready.last_transition_time if ready is not None else None
    if ready is not None and ready.reason == "ReadinessGatesNotReady":
        return StageReport(stage=Stage.READY, state=BLOCKED, at=at, reason=ready.reason, detail=ready.message)
    unready = [
        (k, c)
        for k, c, s in _containers(inputs)
        if k is ContainerKind.REGULAR and s and s.state.running and not s.ready
    ]
    for kind, container in unready:
        entry = inputs.last("Unhealthy", field_path=container_field_path(kind, container.name))
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


def _terminate(inputs: PodDiagnosticInputs) -> StageReport:
    pod, worker = inputs.pod, inputs.worker
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
    alive = [
        c.name for c in (inputs.observed.containers if inputs.observed else ()) if c.state is ContainerState.RUNNING
    ]
    text = f"terminating ({why}{': ' + message if message else ''}); still running: {', '.join(alive) or 'none'}"
    return StageReport(stage=Stage.END, state=WORKING, at=pod.metadata.deletion_timestamp, reason=why, detail=text)


# --- helpers --------------------------------------------------------------------------------------------------


def _containers(inputs: PodDiagnosticInputs) -> list[tuple[ContainerKind, Container, ContainerStatus | None]]:
    status = inputs.pod.status
    known = {
        each.name: each
        for group in (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
        for each in group or ()
    }
    return [
        (kind, container, known.get(container.name))
        for kind, container in inputs.pod.containers()
        if kind is not ContainerKind.EPHEMERAL
    ]


def _initializing(inputs: PodDiagnosticInputs) -> ContainerStatus | None:
    """Return the current init container, or ``None`` if all have completed."""
    for kind, container, status in _containers(inputs):
        if kind is ContainerKind.INIT and status is not None:
            done = status.started if container.restartable_init else status.ready
            if not done:
                return status
    return None


def _exit_text(end: ContainerStateTerminated) -> str:
    """Return exit code and reason of a container, with the start of its termination message."""
    message = " ".join(end.message.split())
    if len(message) > MAX_MESSAGE_CHARACTERS:
        message = f"{message[:MAX_MESSAGE_CHARACTERS]}…"
    return f"exit code {end.exit_code} ({': '.join(part for part in (end.reason, message) if part)})"


def _field_path(pod: Pod, name: str) -> str:
    return next(container_field_path(kind, c.name) for kind, c in pod.containers() if c.name == name)


def _timestamp(nanoseconds: int) -> datetime | None:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC) if nanoseconds else None
