"""Status of a pod whose containers are all restarted because of a restart rule. No I/O."""

from __future__ import annotations

from nodeagent.contracts.runtime import ContainerState, RuntimePod
from nodeagent.model import pod as api
from nodeagent.model.pod import Container, ContainerStatus, Pod, PodCondition, PodPhase, PodStatus
from nodeagent.model.restart import (
    ALL_CONTAINERS_RESTARTING,
    RESTARTING_ALL_CONTAINERS,
    is_restarting_all,
    may_restart_all,
    restarts_all,
)

_REMOVED = "The container is removed because RestartAllContainers in place"
_REMOVED_EXIT_CODE = 137


def restart_in_progress(pod: Pod, runtime: RuntimePod | None, before: PodStatus) -> bool:
    """Return whether all containers of *pod* must be removed, or were removed since *before*.

    The condition in *before* continues a restart whose cause has already been removed from the runtime.
    """
    if not may_restart_all(pod):
        return False
    if is_restarting_all(before):
        return True
    groups = (before.init_container_statuses, before.container_statuses)
    ends = {status.name: status.state.terminated for group in groups for status in group or ()}
    for container in _containers(pod):
        newest = runtime.newest(container.name) if runtime is not None else None
        if newest is not None and newest.state is ContainerState.EXITED and restarts_all(container, newest.exit_code):
            return True
        end = ends.get(container.name)
        if newest is None and end is not None and restarts_all(container, end.exit_code):
            return True
    return False


def restarting_condition(pod: Pod, runtime: RuntimePod | None, phase: str, *, restarting: bool) -> PodCondition | None:
    """Return the condition of a pod with such a rule, ``None`` for others; it ends when no container is left."""
    if not may_restart_all(pod):
        return None
    if phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        reason = "PodCompleted" if phase == PodPhase.SUCCEEDED else "PodFailed"
        return PodCondition(type=ALL_CONTAINERS_RESTARTING, status="False", reason=reason)
    left = runtime is not None and any(runtime.newest(container.name) is not None for container in _containers(pod))
    if not restarting or not left:
        return PodCondition(type=ALL_CONTAINERS_RESTARTING, status="False")
    return PodCondition(
        type=ALL_CONTAINERS_RESTARTING,
        status="True",
        reason="RestartAllContainersStarted",
        message="container exited with restart policy rule",
    )


def removed_container_status(container: Container, before: ContainerStatus) -> ContainerStatus:
    """Return the status of a container that was removed to be restarted with all others."""
    return ContainerStatus(
        name=container.name,
        state=api.ContainerState(waiting=api.ContainerStateWaiting(reason=RESTARTING_ALL_CONTAINERS, message=_REMOVED)),
        last_state=api.ContainerState(
            terminated=api.ContainerStateTerminated(
                exit_code=_REMOVED_EXIT_CODE, reason=RESTARTING_ALL_CONTAINERS, message=_REMOVED
            )
        ),
        restart_count=before.restart_count + 1,
        image=container.image,
        started=False,
        volume_mounts=before.volume_mounts,
    )


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*(pod.spec.init_containers or ()), *pod.spec.containers)
