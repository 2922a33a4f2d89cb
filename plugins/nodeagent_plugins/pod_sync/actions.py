"""Next steps of a pod, computed from the desired and the observed state. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from msgspec import field

from nodeagent.base.structs import MutableStruct, Struct
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import (
    ContainerState,
    NamespaceMode,
    RuntimeContainerStatus,
    RuntimePod,
)
from nodeagent.model.pod import Container, ContainerKind, Pod
from nodeagent.model.restart import may_restart, restarts_after_exit, restarts_after_kill
from nodeagent_plugins.pod_sync.definitions import definition_changed
from nodeagent_plugins.pod_sync.labels import ANNOTATION_SANDBOX
from nodeagent_plugins.pod_sync.restart_all import containers_to_reset

ProbeReader = Callable[[str, ProbeKind], ProbeResult | None]
"""Returns the probe result of a container by container ID."""
ContainerCheck = Callable[[Container, RuntimeContainerStatus], bool]


class ContainerChecks(Struct, frozen=True):
    """Reasons to restart a running container.

    :ivar probe: results of liveness and startup probes.
    :ivar changed: returns whether the container was created from another spec.
    :ivar resized: returns whether the container must be restarted to change its resources.
    """

    probe: ProbeReader
    changed: ContainerCheck = definition_changed
    resized: ContainerCheck = lambda _container, _seen: False


class Kill(Struct, frozen=True):
    """A container to stop, and the message of the event."""

    status: RuntimeContainerStatus
    message: str = ""
    grace_seconds: int | None = None
    """Grace period of the failed probe."""


class Start(Struct, frozen=True):
    """A container to start."""

    kind: ContainerKind
    container: Container
    attempt: int = 0
    resume_id: str = ""
    """A created container that was never started, to be reused."""
    gate: bool = False
    """The remaining starts depend on the success of this one."""


class PodActions(MutableStruct):
    """Steps to execute, in the order of the fields."""

    stop_pod: bool = False
    """Stop all containers and sandboxes first."""
    kills: list[Kill] = field(default_factory=list)
    create_sandbox: bool = False
    sandbox_attempt: int = 0
    changed_sandbox: bool = False
    """The new sandbox replaces another."""
    discards: list[RuntimeContainerStatus] = field(default_factory=list)
    """Containers that were never started, to be removed so that the attempt can be repeated."""
    starts: list[Start] = field(default_factory=list)
    resets: list[RuntimeContainerStatus] = field(default_factory=list)
    """Containers to kill and remove, because all are restarted; there are no other steps then."""


def compute_actions(
    pod: Pod, observed: RuntimePod, checks: ContainerChecks, *, restart_all: bool = False
) -> PodActions:
    """Return the next steps of *pod*.

    :param observed: the latest sandbox and the latest containers first.
    :param checks: reasons to restart a running container.
    :param restart_all: a container exited with an exit code for which all containers are restarted.
    """
    actions = PodActions()
    if restart_all and (resets := containers_to_reset(pod, observed)):
        actions.resets = resets
        return actions
    spec = pod.spec
    actions.discards = [c for c in observed.containers if c.start_interrupted]
    if actions.discards:
        observed = replace(observed, containers=[c for c in observed.containers if not c.start_interrupted])
    renew = sandbox_unusable(pod, observed)
    current = {} if renew else _current_containers(observed)
    stale = [c for c in observed.containers if c.state is ContainerState.CREATED and current.get(c.name) is not c]
    if stale:  # Created in a sandbox that is abandoned, and never started.
        actions.discards += stale
        observed = replace(observed, containers=[c for c in observed.containers if c not in stale])
    finished = _finished(pod, observed)
    if renew:
        actions.stop_pod = bool(observed.containers or observed.sandboxes)
        if finished or _lost(pod, observed):
            return actions
        actions.create_sandbox = True
        actions.changed_sandbox = bool(observed.sandboxes)
        actions.sandbox_attempt = max((s.attempt for s in observed.sandboxes), default=-1) + 1
    elif finished or _init_failed(pod, current):
        actions.stop_pod = True
        return actions

    for container in spec.ephemeral_containers or ():
        seen = current.get(container.name)
        if seen is not None and seen.state is ContainerState.CREATED:
            actions.starts.append(Start(ContainerKind.EPHEMERAL, container, seen.attempt, resume_id=seen.id))
        elif observed.newest(container.name) is None:
            actions.starts.append(Start(ContainerKind.EPHEMERAL, container))
    if _add_init_steps(actions, pod, observed, current, checks):
        _add_regular_steps(actions, pod, observed, current, checks)
    return actions


def sandbox_unusable(pod: Pod, observed: RuntimePod) -> bool:
    """Return whether the pod needs a new sandbox."""
    if not observed.sandboxes or sum(s.ready for s in observed.sandboxes) > 1:
        return True
    newest = observed.sandboxes[0]
    network_mode = NamespaceMode.NODE if pod.spec.host_network else NamespaceMode.POD
    if not newest.ready or newest.network_mode is not network_mode:
        return True
    return network_mode is NamespaceMode.POD and not newest.ips


def should_run_again(pod: Pod, container: Container, last: RuntimeContainerStatus | None) -> bool:
    """Return whether a regular container that is not running must be started."""
    if last is None or last.state in (ContainerState.UNKNOWN, ContainerState.CREATED):
        return True
    return restarts_after_exit(pod, container, last.exit_code)


def _current_containers(observed: RuntimePod) -> Mapping[str, RuntimeContainerStatus]:
    """Return the latest container of each name in the latest sandbox."""
    sandbox = observed.sandboxes[0]
    current: dict[str, RuntimeContainerStatus] = {}
    for status in observed.containers:
        owner = status.annotations.get(ANNOTATION_SANDBOX)
        mine = owner == sandbox.id if owner else status.created_at >= sandbox.created_at
        if mine or status.state is ContainerState.RUNNING:
            current.setdefault(status.name, status)
    return current


def _finished(pod: Pod, observed: RuntimePod) -> bool:
    """Return whether all regular containers have exited and none will be restarted."""
    if not pod.spec.containers:
        return False
    for container in pod.spec.containers:
        last = observed.newest(container.name)
        if last is None or last.state is not ContainerState.EXITED or should_run_again(pod, container, last):
            return False
    return True


def _lost(pod: Pod, observed: RuntimePod) -> bool:
    """Return whether a pod without restarts has lost its sandbox after its containers were started."""
    restarts = any(may_restart(pod, container) for container in pod.spec.containers)
    return not restarts and bool(observed.sandboxes) and bool(observed.containers)


def _init_failed(pod: Pod, current: Mapping[str, RuntimeContainerStatus]) -> bool:
    if _initialized(pod, current):
        return False
    return any(
        seen.state is ContainerState.EXITED
        and seen.exit_code != 0
        and not restarts_after_exit(pod, container, seen.exit_code)
        for container in pod.spec.init_containers or ()
        if not container.restartable_init and (seen := current.get(container.name)) is not None
    )


def _initialized(pod: Pod, current: Mapping[str, RuntimeContainerStatus]) -> bool:
    """Return whether a regular container was created in this sandbox, which implies initialization."""
    return any(container.name in current for container in pod.spec.containers)


def _add_init_steps(
    actions: PodActions,
    pod: Pod,
    observed: RuntimePod,
    current: Mapping[str, RuntimeContainerStatus],
    checks: ContainerChecks,
) -> bool:
    """Add the steps of init containers and sidecars; return whether regular containers may start."""
    initialized = _initialized(pod, current)
    containers = pod.spec.init_containers or ()
    latest = max((index for index, container in enumerate(containers) if container.name in current), default=-1)
    for index, container in enumerate(containers):
        seen = current.get(container.name)
        if container.restartable_init:
            started = _add_sidecar_step(actions, container, seen, observed, checks)
            # A sidecar that restarts does not delay the containers that were started after it.
            if not started and not initialized and index >= latest:
                return False
        elif not initialized:
            if seen is not None and seen.state is ContainerState.EXITED and seen.exit_code == 0:
                continue
            if seen is None or seen.state is not ContainerState.RUNNING:
                if seen is not None and seen.state is ContainerState.UNKNOWN:
                    actions.kills.append(Kill(seen, f"Init container {container.name} is in unknown state"))
                actions.starts.append(_start(ContainerKind.INIT, container, seen, observed, checks, gate=True))
            return False
    return True


def _add_sidecar_step(
    actions: PodActions,
    container: Container,
    seen: RuntimeContainerStatus | None,
    observed: RuntimePod,
    checks: ContainerChecks,
) -> bool:
    """Add the steps of a sidecar; return whether the next container may start."""
    passes = container.startup_probe is None
    if seen is None or seen.state is ContainerState.CREATED:
        actions.starts.append(_start(ContainerKind.INIT, container, seen, observed, checks, gate=True))
        return passes
    if seen.state is ContainerState.RUNNING:
        kill = _reason_to_kill(container, seen, checks, again=True)
        if kill is None:
            return passes or checks.probe(seen.id, ProbeKind.STARTUP) is ProbeResult.SUCCESS
        actions.kills.append(kill)
        passes = passes or checks.probe(seen.id, ProbeKind.STARTUP) is ProbeResult.SUCCESS
    elif seen.state is ContainerState.UNKNOWN:
        actions.kills.append(
            Kill(seen, f"Container {container.name} is in unknown state, try killing it before restart")
        )
    actions.starts.append(_start(ContainerKind.INIT, container, seen, observed, checks))
    return passes


def _add_regular_steps(
    actions: PodActions,
    pod: Pod,
    observed: RuntimePod,
    current: Mapping[str, RuntimeContainerStatus],
    checks: ContainerChecks,
) -> None:
    kind = ContainerKind.REGULAR
    for container in pod.spec.containers:
        seen = current.get(container.name)
        if seen is not None and seen.state is ContainerState.RUNNING:
            again = restarts_after_kill(pod, container)
            kill = _reason_to_kill(container, seen, checks, again=again)
            if kill is None:
                continue
            actions.kills.append(kill)
            if again or checks.changed(container, seen):
                actions.starts.append(_start(kind, container, seen, observed, checks))
            continue
        last = seen or observed.newest(container.name)
        if not should_run_again(pod, container, last):
            continue
        if last is not None and last.state is ContainerState.UNKNOWN:
            message = f"Container {container.name} is in unknown state, try killing it before restart"
            actions.kills.append(Kill(last, message))
        actions.starts.append(_start(kind, container, seen, observed, checks))


def _start(
    kind: ContainerKind,
    container: Container,
    seen: RuntimeContainerStatus | None,
    observed: RuntimePod,
    checks: ContainerChecks,
    *,
    gate: bool = False,
) -> Start:
    """Return how to start *container* after *seen*, its last run in this sandbox."""
    if seen is not None and seen.state is ContainerState.CREATED and not checks.changed(container, seen):
        return Start(kind, container, seen.attempt, resume_id=seen.id, gate=gate)
    newest = observed.newest(container.name)
    attempt = newest.attempt + 1 if newest is not None else 0
    return Start(kind, container, attempt, gate=gate)


def _reason_to_kill(
    container: Container, seen: RuntimeContainerStatus, checks: ContainerChecks, *, again: bool
) -> Kill | None:
    name = container.name
    if checks.changed(container, seen):
        return Kill(seen, f"Container {name} definition changed, will be restarted")
    if checks.resized(container, seen):
        return Kill(seen, f"Container {name} resize requires restart")
    suffix = ", will be restarted" if again else ""
    if container.liveness_probe and checks.probe(seen.id, ProbeKind.LIVENESS) is ProbeResult.FAILURE:
        grace = container.liveness_probe.termination_grace_period_seconds
        return Kill(seen, f"Container {name} failed liveness probe{suffix}", grace)
    if container.startup_probe and checks.probe(seen.id, ProbeKind.STARTUP) is ProbeResult.FAILURE:
        grace = container.startup_probe.termination_grace_period_seconds
        return Kill(seen, f"Container {name} failed startup probe{suffix}", grace)
    return None
