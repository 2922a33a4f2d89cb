"""Containers to remove when a restart rule restarts all containers of a pod. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus, RuntimePod
from nodeagent.model.pod import Container, Pod
from nodeagent.model.restart import restarts_all


def containers_to_reset(pod: Pod, observed: RuntimePod) -> list[RuntimeContainerStatus]:
    """Return the containers to remove, in this order; ephemeral containers stay.

    Containers whose exit caused the restart are last: as long as one is left, an interrupted restart continues.
    """
    regular_causes, regular = _split(pod.spec.containers, observed)
    init_causes, init = _split(pod.spec.init_containers or (), observed)
    return [*regular, *init, *regular_causes, *init_causes]


def _split(
    containers: Sequence[Container], observed: RuntimePod
) -> tuple[list[RuntimeContainerStatus], list[RuntimeContainerStatus]]:
    """Return all runs of *containers*: those that caused the restart, and the others."""
    causes: list[RuntimeContainerStatus] = []
    others: list[RuntimeContainerStatus] = []
    for container in containers:
        for run in observed.containers:
            if run.name == container.name:
                caused = run.state is ContainerState.EXITED and restarts_all(container, run.exit_code)
                (causes if caused else others).append(run)
    return causes, others
