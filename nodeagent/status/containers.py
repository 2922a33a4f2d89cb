"""Generate container statuses. No I/O. spec: facts on container statuses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from nodeagent.base.structs import Struct
from nodeagent.contracts.devices import DeviceHealth
from nodeagent.contracts.pods import WaitingReason
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import (
    ANNOTATION_RESTART_COUNT,
    ContainerState,
    RuntimeContainerStatus,
    RuntimePod,
)
from nodeagent.model import pod as api
from nodeagent.model.pod import Container, ContainerKind, ContainerStatus
from nodeagent.status.container_details import device_statuses, user_status, volume_mount_statuses
from nodeagent.status.restarting import removed_container_status

ProbeLookup = Callable[[str, ProbeKind], ProbeResult | None]

LOST_EXIT_CODE = 137
MAX_MESSAGES_BYTES = 12288
REMOVED_INIT_CONTAINER = (
    "Unable to get init container status from container runtime and pod has been initialized, "
    "treat it as exited normally"
)


class ContainerStatusInputs(Struct, frozen=True, kw_only=True):
    """Inputs of the container statuses of one pod."""

    runtime: RuntimePod | None
    before: Mapping[str, ContainerStatus]
    """The previous statuses, by container name."""
    waiting: Mapping[str, WaitingReason]
    """Waiting reasons, by container name."""
    probes: ProbeLookup
    runtime_name: str
    has_init: bool
    ended: bool
    """True if all containers of the pod have exited."""
    due: Collection[str]
    """Names of the containers that were due to start; one of these that is missing in the runtime was lost."""
    stop_signals: bool = False
    """Report the effective stop signals (feature gate ContainerStopSignals)."""
    restarting_all: bool = False
    """True if the containers of the pod are removed so that all are restarted."""
    image_refs: bool = False
    """Report the images of image volumes."""
    device_health: Callable[[str], Mapping[str, Sequence[DeviceHealth]]] = lambda _: {}
    """Returns the health of the devices of a container by resource."""
    initialized: bool = False
    """True if a regular container was created, which implies that all init containers have completed."""


def container_statuses(
    kind: ContainerKind, containers: Iterable[Container], inputs: ContainerStatusInputs
) -> list[ContainerStatus]:
    """Return the status of each of *containers*, in their order."""
    return [_status(kind, container, inputs) for container in containers]


def _status(kind: ContainerKind, container: Container, inputs: ContainerStatusInputs) -> ContainerStatus:
    known = inputs.runtime.containers if inputs.runtime else ()
    runs = [c for c in known if c.name == container.name and not c.start_interrupted]
    if not runs:
        if inputs.restarting_all and kind is not ContainerKind.EPHEMERAL:
            before = inputs.before.get(container.name)
            if before is not None and before.state.waiting is None:
                return removed_container_status(container, before)
        return _status_without_runtime(kind, container, inputs)
    before, waiting = inputs.before.get(container.name), inputs.waiting.get(container.name)
    runtime_name = inputs.runtime_name
    newest = runs[0]
    state = _state(newest, runtime_name)
    if newest.state is ContainerState.UNKNOWN and before is not None:
        state = _unknown_state(before, f"{runtime_name}://{newest.id}") or state
    last = _state(runs[1], runtime_name) if len(runs) > 1 else (before.last_state if before else api.ContainerState())
    if last.terminated is None:
        last = before.last_state if before is not None else api.ContainerState()
    if state.terminated is not None and _container_id_of(last) == _container_id_of(state):
        last = api.ContainerState()  # It waited for a restart that will not happen.
    restarts = _restart_count(newest, before)
    initialized = _initialized(kind, container, newest)
    if waiting is not None and state.running is None and not inputs.ended and not initialized:
        if state.terminated is not None:
            last = state
        state = api.ContainerState(waiting=api.ContainerStateWaiting(reason=waiting.reason, message=waiting.message))
    running = newest.state is ContainerState.RUNNING
    started = running and _started(container, newest, inputs.probes)
    return ContainerStatus(
        name=container.name,
        state=state,
        last_state=last,
        ready=initialized or (started and _ready(kind, container, newest, inputs.probes)),
        restart_count=restarts,
        image=newest.image or container.image,
        image_id=newest.image_ref,
        container_id=f"{runtime_name}://{newest.id}",
        started=started,
        volume_mounts=volume_mount_statuses(container, newest, image_refs=inputs.image_refs),
        user=user_status(newest),
        stop_signal=(inputs.stop_signals and newest.stop_signal) or msgspec.UNSET,
        allocated_resources_status=device_statuses(inputs.device_health(container.name))
        if kind is ContainerKind.REGULAR
        else msgspec.UNSET,
    )


def _unknown_state(before: ContainerStatus, container_id: str) -> api.ContainerState | None:
    """Return the state of a container that is unknown to the runtime: terminated, if it was running.

    If it were reported as waiting, a pod with restart policy Never would run it twice.
    """
    if before.container_id != container_id or before.state.waiting is not None:
        return None
    if before.state.running is None:
        return before.state
    return api.ContainerState(terminated=_lost_termination(container_id, ended=True))


def _lost_termination(container_id: object, *, ended: bool) -> api.ContainerStateTerminated:
    """Return the terminated state of a container whose exit was not observed."""
    return api.ContainerStateTerminated(
        exit_code=LOST_EXIT_CODE,
        reason="ContainerStatusUnknown",
        message="The container could not be located when the pod was terminated"
        if ended
        else "The container could not be located when the pod was deleted.  The container used to be Running",
        container_id=container_id if isinstance(container_id, str) else "",
    )


def _status_without_runtime(
    kind: ContainerKind, container: Container, inputs: ContainerStatusInputs
) -> ContainerStatus:
    """Return the status of a container that does not exist in the runtime."""
    before, waiting, ended = inputs.before.get(container.name), inputs.waiting.get(container.name), inputs.ended
    if before is not None and before.state.terminated is not None:
        return before
    if (
        kind is ContainerKind.INIT
        and not container.restartable_init
        and inputs.initialized
        and (before is None or before.state.waiting is not None)
    ):  # Its status was not stored, as that of a static pod before a restart of the agent.
        completed = api.ContainerStateTerminated(exit_code=0, reason="Completed", message=REMOVED_INIT_CONTAINER)
        return ContainerStatus(
            name=container.name,
            state=api.ContainerState(terminated=completed),
            ready=True,
            restart_count=before.restart_count if before is not None else 0,
            image=container.image,
            started=False,
            volume_mounts=volume_mount_statuses(container, None),
        )
    if before is not None and (before.state.running is not None or (ended and container.name in inputs.due)):
        lost = _lost_termination(before.container_id, ended=ended)
        if ended:
            return ContainerStatus(
                name=container.name,
                state=api.ContainerState(terminated=lost),
                last_state=before.last_state,
                restart_count=before.restart_count,
                image=before.image or container.image,
                image_id=before.image_id,
                container_id=before.container_id,
                started=False,
                volume_mounts=before.volume_mounts,
                user=before.user,
            )
        return ContainerStatus(
            name=container.name,
            state=_waiting_state(waiting, initializing=inputs.has_init),
            last_state=api.ContainerState(terminated=lost),
            restart_count=before.restart_count + 1,
            image=container.image,
            started=False,
            volume_mounts=volume_mount_statuses(container, None),
        )
    return ContainerStatus(
        name=container.name,
        state=_waiting_state(waiting, initializing=inputs.has_init),
        last_state=before.last_state if before is not None else api.ContainerState(),
        restart_count=before.restart_count if before is not None else 0,
        image=container.image,
        started=False,
        volume_mounts=volume_mount_statuses(container, None),
    )


def containers_due(pod: api.Pod, runtime: RuntimePod | None, before: Mapping[str, ContainerStatus]) -> frozenset[str]:
    """Return the names of the containers due to start: init containers one after the other, then the others."""

    def has_started(name: str) -> bool:
        status = before.get(name)
        known = status is not None and (status.state.waiting is None or status.last_state.terminated is not None)
        return known or (runtime is not None and runtime.newest(name) is not None)

    init = pod.spec.init_containers or ()
    regular = {container.name for container in pod.spec.containers}
    if not init or any(map(has_started, regular)) or _init_completed(init[-1], runtime, before.get(init[-1].name)):
        return frozenset({*regular, *(container.name for container in init)})
    current = max((index for index, container in enumerate(init) if has_started(container.name)), default=0)
    return frozenset(container.name for container in init[: current + 1])


def _init_completed(container: Container, runtime: RuntimePod | None, before: ContainerStatus | None) -> bool:
    """Return whether the containers after an init container were allowed to start."""
    if container.restartable_init:
        return before is not None and before.started is True
    ends = [] if before is None else [before.state.terminated, before.last_state.terminated]
    newest = runtime.newest(container.name) if runtime is not None else None
    return any(end is not None and end.exit_code == 0 for end in ends) or (
        newest is not None and newest.state is ContainerState.EXITED and newest.exit_code == 0
    )


def _container_id_of(state: api.ContainerState) -> str:
    """Return the container ID of a terminated state."""
    return state.terminated.container_id if state.terminated is not None else ""


def _waiting_state(waiting: WaitingReason | None, *, initializing: bool) -> api.ContainerState:
    if waiting is None:
        waiting = WaitingReason("PodInitializing" if initializing else "ContainerCreating")
    return api.ContainerState(waiting=api.ContainerStateWaiting(reason=waiting.reason, message=waiting.message))


def _state(run: RuntimeContainerStatus, runtime_name: str) -> api.ContainerState:
    match run.state:
        case ContainerState.RUNNING:
            return api.ContainerState(running=api.ContainerStateRunning(started_at=_time(run.started_at)))
        case ContainerState.EXITED:
            return api.ContainerState(
                terminated=api.ContainerStateTerminated(
                    exit_code=run.exit_code,
                    reason=run.reason or ("Completed" if run.exit_code == 0 else "Error"),
                    message=run.message,
                    started_at=_time(run.started_at or run.created_at),
                    finished_at=_time(run.finished_at),
                    container_id=f"{runtime_name}://{run.id}",
                )
            )
        case _:
            return _waiting_state(None, initializing=False)


def _time(nanoseconds: int) -> datetime | None:
    """Return the time in seconds, the API's resolution."""
    return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC) if nanoseconds > 0 else None


def _restart_count(newest: RuntimeContainerStatus, before: ContainerStatus | None) -> int:
    """Return the restart count from the container's annotation; it never decreases."""
    try:
        count = int(newest.annotations.get(ANNOTATION_RESTART_COUNT, newest.attempt))
    except ValueError:
        count = newest.attempt
    return max(count, before.restart_count if before is not None else 0)


def _started(container: Container, newest: RuntimeContainerStatus, probes: ProbeLookup) -> bool:
    """Return whether a running container has passed its startup probe, if it has one."""
    return container.startup_probe is None or probes(newest.id, ProbeKind.STARTUP) is ProbeResult.SUCCESS


def _initialized(kind: ContainerKind, container: Container, newest: RuntimeContainerStatus) -> bool:
    """Return whether a regular init container has completed."""
    regular = kind is ContainerKind.INIT and not container.restartable_init
    return regular and newest.state is ContainerState.EXITED and newest.exit_code == 0


def _ready(kind: ContainerKind, container: Container, newest: RuntimeContainerStatus, probes: ProbeLookup) -> bool:
    """Return whether a started container is ready."""
    if kind is ContainerKind.EPHEMERAL or (kind is ContainerKind.INIT and not container.restartable_init):
        return False
    return container.readiness_probe is None or probes(newest.id, ProbeKind.READINESS) is ProbeResult.SUCCESS


def share_messages(*groups: list[ContainerStatus]) -> Sequence[list[ContainerStatus]]:
    """Return *groups* with termination messages truncated to 12 KiB in total per pod."""
    message_count = sum(any(_message(state) for state in (s.state, s.last_state)) for group in groups for s in group)
    if not message_count:
        return groups
    limit = MAX_MESSAGES_BYTES // message_count
    return [[_with_messages_within(limit, status) for status in group] for group in groups]


def _message(state: api.ContainerState) -> str:
    return state.terminated.message if state.terminated is not None else ""


def _with_messages_within(limit: int, status: ContainerStatus) -> ContainerStatus:
    states = {}
    for name, state in (("state", status.state), ("last_state", status.last_state)):
        if (end := state.terminated) is not None:
            message = end.message.encode()[:limit].decode(errors="ignore")
            states[name] = api.ContainerState(terminated=msgspec.structs.replace(end, message=message))
    return msgspec.structs.replace(status, **states)


def by_name(statuses: Sequence[ContainerStatus] | None) -> dict[str, ContainerStatus]:
    """Return *statuses* by container name."""
    return {status.name: status for status in statuses or ()}
