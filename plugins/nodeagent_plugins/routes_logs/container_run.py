"""Selection of a container's run. No I/O."""

from __future__ import annotations

import msgspec

from nodeagent.contracts.runtime import RuntimeContainerStatus, RuntimePod
from nodeagent.model.pod import ContainerStateTerminated, ContainerStatus, Pod, PodStatus

_WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class NoLog(ValueError):
    """No run has a log; the text states the reason."""


def choose_run(
    pod: Pod, name: str, status: PodStatus | None, observed: RuntimePod | None, *, previous: bool
) -> RuntimeContainerStatus:
    """Return the run: with *previous* the one before, else the running one, the exited one, or the last before waiting.

    :raises NoLog: there is no such run.
    """
    runs = {run.id: run for run in observed.containers if run.name == name} if observed is not None else {}
    reported = _reported(status, name)
    if reported is None:
        found = observed.newest(name) if observed is not None and not previous else None
        if found is None:
            raise NoLog(f'container "{name}" in pod "{pod.name}" is not available')
        return found
    chosen = _chosen_id(pod, name, reported, previous=previous)
    if chosen not in runs:
        raise NoLog(f'container "{name}" in pod "{pod.name}": its log no longer exists')
    return runs[chosen]


def _chosen_id(pod: Pod, name: str, reported: ContainerStatus, *, previous: bool) -> str:
    state, last = reported.state, reported.last_state.terminated
    if previous:
        if last is None:
            raise NoLog(f'previous terminated container "{name}" in pod "{pod.name}" not found')
        return _id_of(last)
    if state.running is not None:
        return _bare(reported.container_id)
    if state.terminated is not None:
        return _id_of(state.terminated)
    if last is not None:
        return _id_of(last)
    reason = state.waiting.reason if state.waiting is not None else ""
    raise NoLog(f'container "{name}" in pod "{pod.name}" is waiting to start: {_WAITING.get(reason, reason)}')


def _reported(status: PodStatus | None, name: str) -> ContainerStatus | None:
    if status is None:
        return None
    lists = (status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses)
    return next((found for statuses in lists for found in statuses or () if found.name == name), None)


def _id_of(ended: ContainerStateTerminated) -> str:
    return _bare(ended.container_id)


def _bare(container_id: str | msgspec.UnsetType) -> str:
    """Return the runtime's id: ``containerd://4f2a`` → ``4f2a``."""
    return container_id.rpartition("//")[2] if isinstance(container_id, str) else ""
