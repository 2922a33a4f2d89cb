"""Generate the status of a pod from its runtime state. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import field

from nodeagent.allocation.report import ResourceReport
from nodeagent.base import identity
from nodeagent.base.structs import Struct
from nodeagent.contracts.devices import DeviceHealth
from nodeagent.contracts.pods import WaitingReason
from nodeagent.contracts.runtime import ContainerState, NamespaceMode, RuntimePod
from nodeagent.model.pod import (
    Container,
    ContainerKind,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodIp,
    PodPhase,
    PodStatus,
)
from nodeagent.model.qos import qos_class
from nodeagent.model.resizing import ResizeCondition
from nodeagent.model.resources import pod_requests
from nodeagent.model.restart import RESTARTING_ALL_CONTAINERS, may_restart_all, restarts_after_exit
from nodeagent.status.containers import (
    ContainerStatusInputs,
    ProbeLookup,
    by_name,
    container_statuses,
    containers_due,
    share_messages,
)
from nodeagent.status.resources import with_resources
from nodeagent.status.restarting import restart_in_progress, restarting_condition

DISRUPTION_TARGET = "DisruptionTarget"


class PodStatusInputs(Struct, frozen=True, kw_only=True):
    """Inputs of the pod status, besides the pod."""

    runtime: RuntimePod | None
    before: PodStatus
    """The previously generated status."""
    waiting: Mapping[str, WaitingReason] = field(default_factory=dict)
    ended: bool = False
    failed: tuple[str, str] | None = None
    """Reason and message of a pod that the node terminated or rejected."""
    disrupted: str = ""
    """Message of the condition DisruptionTarget; empty for none (spec: gate.PodDisruptionConditions)."""
    blocked: tuple[str, str] | None = None
    """Reason and message of a pod that must not run now."""
    static: bool = False
    now: datetime
    host_ips: Sequence[str] = ()
    host_ips_field: bool = True
    """Report all addresses in ``hostIPs`` (spec: gate.PodHostIPs)."""
    runtime_name: str = "containerd"
    probes: ProbeLookup = lambda _id, _kind: None
    note: str = ""
    """Cause of a long wait, appended to the message of the conditions Ready and ContainersReady."""
    resources: ResourceReport | None = None
    """Resources to report in the container statuses; ``None`` for none."""
    resize_conditions: Sequence[PodCondition] = ()
    """Conditions of a pending or unfinished resize."""
    sandbox_condition: bool = True
    """Report PodReadyToStartContainers (spec: gate.PodReadyToStartContainersCondition)."""
    observed_generation: bool = False
    """Report the generation of the pod (feature gate PodObservedGenerationTracking)."""
    stop_signals: bool = False
    """Report the effective stop signals of containers (feature gate ContainerStopSignals)."""
    image_refs: bool = False
    """Report the images of image volumes (feature gate ImageVolumeWithDigest)."""
    device_health: Callable[[str], Mapping[str, Sequence[DeviceHealth]]] = lambda _: {}
    """Returns the health of a container's devices by resource (feature gate ResourceHealthStatus)."""


def generate_status(pod: Pod, inputs: PodStatusInputs) -> PodStatus:
    """Return the status of *pod*.

    A terminal phase never changes. The worker then terminates remaining containers, see :func:`presentable`.
    """
    spec, before = pod.spec, inputs.before
    old = by_name([*(before.init_container_statuses or ()), *(before.container_statuses or ()),
                   *(before.ephemeral_container_statuses or ())])  # fmt: skip
    ended = inputs.ended or before.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    restarting = not ended and inputs.failed is None and restart_in_progress(pod, inputs.runtime, before)
    container_inputs = ContainerStatusInputs(
        runtime=inputs.runtime,
        before=old,
        waiting=inputs.waiting,
        probes=inputs.probes,
        runtime_name=inputs.runtime_name,
        has_init=bool(spec.init_containers),
        ended=ended,
        due=containers_due(pod, inputs.runtime, old) if ended else frozenset(),
        stop_signals=inputs.stop_signals,
        restarting_all=restarting,
        initialized=inputs.runtime is not None
        and any(
            (seen := inputs.runtime.newest(container.name)) is not None and seen.state is not ContainerState.UNKNOWN
            for container in spec.containers
        ),
        image_refs=inputs.image_refs,
        device_health=inputs.device_health,
    )
    if inputs.failed is not None and inputs.runtime is None and not old:
        init, regular, ephemeral = [], [], []  # Rejected: no container was ever created.
    else:
        init = container_statuses(ContainerKind.INIT, spec.init_containers or (), container_inputs)
        regular = container_statuses(ContainerKind.REGULAR, spec.containers, container_inputs)
        regular.sort(key=lambda status: status.name)
        ephemeral = container_statuses(ContainerKind.EPHEMERAL, spec.ephemeral_containers or (), container_inputs)
        init, regular, ephemeral = share_messages(init, regular, ephemeral)
        if inputs.resources is not None:
            init = with_resources(pod, init, inputs.resources, inputs.runtime)
            regular = with_resources(pod, regular, inputs.resources, inputs.runtime)
    alive = inputs.runtime is not None and inputs.runtime.alive
    computed = _phase(pod, init, regular, ended=inputs.ended and not inputs.static)
    phase, reason, message = _final_phase(computed, inputs, alive)
    host_ips = [PodIp(ip=ip) for ip in inputs.host_ips] or before.host_ips
    ips = _pod_ips(pod, inputs)
    status = PodStatus(
        phase=phase,
        reason=reason,
        message=message,
        host_ip=inputs.host_ips[0] if inputs.host_ips else before.host_ip,
        host_ips=host_ips if inputs.host_ips_field else None,
        pod_ip=ips[0] if ips else "",
        pod_ips=[PodIp(ip=ip) for ip in ips] or None,
        start_time=before.start_time or inputs.now.replace(microsecond=0),
        init_container_statuses=init or None,
        container_statuses=regular or None,
        ephemeral_container_statuses=ephemeral or None,
        qos_class=before.qos_class or qos_class(pod),
        nominated_node_name=before.nominated_node_name,
    )
    if inputs.resources is not None and inputs.resources.pod is not None:
        requests = {name: str(value) for name, value in pod_requests(pod).items()}
        status = msgspec.structs.replace(status, allocated_resources=requests, resources=inputs.resources.pod)
    generation = _observed_generation(pod, inputs)
    conditions = [
        msgspec.structs.replace(condition, observed_generation=generation)
        for condition in _conditions(pod, status, inputs, restarting=restarting)
    ]
    if phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        conditions.extend(inputs.resize_conditions)
    conditions = _with_transition_times(conditions, before.conditions, inputs.now)
    return msgspec.structs.replace(status, conditions=conditions, observed_generation=generation)


def _observed_generation(pod: Pod, inputs: PodStatusInputs) -> int:
    """Return the generation to report; a status that once had one retains it, and it never decreases."""
    before = inputs.before.observed_generation
    return max(before, pod.metadata.generation) if inputs.observed_generation or before else 0


def presentable(
    status: PodStatus, before: PodStatus, runtime: RuntimePod | None, *, uses_claims: bool = False
) -> PodStatus:
    """Return *status* as reported to the API: without a terminal phase while a container may still be running.

    Controllers replace a finished pod, and the scheduler reassigns its resources.

    :param uses_claims: a resource claim may be prepared for the pod.
    """
    terminal = (PodPhase.SUCCEEDED, PodPhase.FAILED)
    if status.phase not in terminal or before.phase in terminal:
        return status
    containers = runtime.containers if runtime is not None else ()
    if not uses_claims and not any(c.state in (ContainerState.RUNNING, ContainerState.UNKNOWN) for c in containers):
        return status
    return msgspec.structs.replace(
        status, phase=before.phase or PodPhase.RUNNING, reason=before.reason, message=before.message
    )


def resumed(status: PodStatus, shown: PodStatus) -> PodStatus:
    """Return *status* with the start and transition times of *shown*, reported before a restart of the agent."""
    times = {(c.type, c.status): c.last_transition_time for c in shown.conditions or () if c.last_transition_time}
    conditions = [
        msgspec.structs.replace(c, last_transition_time=times.get((c.type, c.status), c.last_transition_time))
        for c in status.conditions or shown.conditions or ()
    ]
    start = shown.start_time or status.start_time
    return msgspec.structs.replace(status, start_time=start, conditions=conditions or None)


# --- phase ----------------------------------------------------------------------------------------------------


def _phase(pod: Pod, init: Sequence[ContainerStatus], regular: Sequence[ContainerStatus], *, ended: bool) -> PodPhase:
    """Return the phase that follows from the container states, with the kubelet's precedence."""
    containers = {c.name: c for _, c in pod.containers()}
    sidecars = {c.name for c in pod.spec.init_containers or () if c.restartable_init}
    pending = False
    for status in init:
        if status.name in sidecars:
            continue
        done = status.state.terminated or (status.last_state.terminated if status.state.waiting else None)
        if done is not None and done.exit_code != 0:
            if not _restarts(pod, containers[status.name], done):
                return PodPhase.FAILED
        elif done is None:
            pending = True  # Also after the pod ran in an earlier sandbox, as after a reboot of the node.
    running = sum(1 for s in regular if s.state.running is not None)
    stopped = {s.name: s.state.terminated for s in regular if s.state.terminated is not None}
    fresh = sum(1 for s in regular if s.state.waiting is not None and s.last_state.terminated is None)
    restarting = len(regular) - running - len(stopped) - fresh
    if pending or fresh:
        return PodPhase.PENDING if not ended else _terminated_phase(regular)
    if running:
        return PodPhase.RUNNING
    if ended:
        return _terminated_phase(regular)
    if stopped or restarting:
        if restarting or any(_restarts(pod, containers[name], state) for name, state in stopped.items()):
            return PodPhase.RUNNING
        return PodPhase.FAILED if any(state.exit_code for state in stopped.values()) else PodPhase.SUCCEEDED
    return PodPhase.PENDING


def _restarts(pod: Pod, container: Container, end: ContainerStateTerminated) -> bool:
    """Return whether *container* is restarted after *end*, by its policy or together with all others."""
    return end.reason == RESTARTING_ALL_CONTAINERS or restarts_after_exit(pod, container, end.exit_code)


def _terminated_phase(regular: Sequence[ContainerStatus]) -> PodPhase:
    good = regular and all(s.state.terminated is not None and s.state.terminated.exit_code == 0 for s in regular)
    return PodPhase.SUCCEEDED if good else PodPhase.FAILED


def _final_phase(computed: PodPhase, inputs: PodStatusInputs, alive: bool) -> tuple[str, str, str]:
    """Return phase, reason and message; terminal phases are kept, and not reported too early."""
    before = inputs.before
    if before.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        return before.phase, before.reason, before.message
    if inputs.failed is not None:
        reason, message = inputs.failed
        # The control plane must never see a finished pod with running containers.
        return (PodPhase.FAILED if not alive else (before.phase or PodPhase.PENDING)), reason, message
    if inputs.blocked is not None and computed not in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        return PodPhase.PENDING, *inputs.blocked
    return computed, "", ""


def _pod_ips(pod: Pod, inputs: PodStatusInputs) -> Sequence[str]:
    if pod.spec.host_network:
        return inputs.host_ips
    if inputs.runtime is not None and inputs.runtime.ips:
        return inputs.runtime.ips
    return (
        [ip.ip for ip in inputs.before.pod_ips or ()]
        if inputs.ended or inputs.before.phase in ("Succeeded", "Failed")
        else ()
    )


# --- conditions -----------------------------------------------------------------------------------------------


def _conditions(pod: Pod, status: PodStatus, inputs: PodStatusInputs, *, restarting: bool) -> list[PodCondition]:
    ready_containers = _containers_ready(pod, status, inputs.note)
    conditions = [
        _initialized(pod, status, inputs.before),
        _ready(pod, ready_containers, inputs.before),
        ready_containers,
        PodCondition(type="PodScheduled", status="True"),
    ]
    all_restarting = restarting_condition(pod, inputs.runtime, status.phase, restarting=restarting)
    if all_restarting is not None:
        conditions.append(all_restarting)
    if inputs.sandbox_condition:
        conditions.insert(0, PodCondition(type="PodReadyToStartContainers", status=_bool(_sandbox_ready(pod, inputs))))
    if (
        inputs.disrupted
        and inputs.failed is not None
        and inputs.before.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    ):
        reason = f"TerminationBy{identity.current().component.capitalize()}"
        conditions.append(PodCondition(type=DISRUPTION_TARGET, status="True", reason=reason, message=inputs.disrupted))
    return conditions


def _sandbox_ready(pod: Pod, inputs: PodStatusInputs) -> bool:
    runtime = inputs.runtime
    if runtime is None or not runtime.sandboxes or not runtime.sandboxes[0].ready:
        return False
    newest = runtime.sandboxes[0]
    return bool(newest.ips) or newest.network_mode is NamespaceMode.NODE or pod.spec.host_network


def _initialized(pod: Pod, status: PodStatus, before: PodStatus) -> PodCondition:
    if status.phase == PodPhase.SUCCEEDED:
        return PodCondition(type="Initialized", status="True", reason="PodCompleted")
    sidecars = {c.name for c in pod.spec.init_containers or () if c.restartable_init}
    incomplete = [
        s.name for s in status.init_container_statuses or () if not (s.started if s.name in sidecars else s.ready)
    ]
    has_started = any(
        s.state.running or s.state.terminated or s.last_state.terminated for s in status.container_statuses or ()
    )
    if pod.spec.init_containers and not status.init_container_statuses:
        return PodCondition(type="Initialized", status="False", reason="UnknownContainerStatuses")
    was_initialized = any(c.type == "Initialized" and c.status == "True" for c in before.conditions or ())
    if not incomplete or has_started or (was_initialized and may_restart_all(pod)):
        return PodCondition(type="Initialized", status="True")
    return PodCondition(
        type="Initialized",
        status="False",
        reason="ContainersNotInitialized",
        message=f"containers with incomplete status: [{' '.join(incomplete)}]",
    )


def _containers_ready(pod: Pod, status: PodStatus, note: str) -> PodCondition:
    if status.phase == PodPhase.SUCCEEDED:
        return PodCondition(type="ContainersReady", status="False", reason="PodCompleted")
    if status.phase == PodPhase.FAILED:
        return PodCondition(type="ContainersReady", status="False", reason="PodFailed")
    sidecars = {c.name for c in pod.spec.init_containers or () if c.restartable_init}
    counted = {
        **by_name([s for s in status.init_container_statuses or () if s.name in sidecars]),
        **by_name(status.container_statuses),
    }
    names = [*sidecars, *(c.name for c in pod.spec.containers)]
    unready = [name for name in names if name not in counted or not counted[name].ready]
    if not unready:
        return PodCondition(type="ContainersReady", status="True")
    message = f"containers with unready status: [{' '.join(unready)}]"
    return PodCondition(
        type="ContainersReady",
        status="False",
        reason="ContainersNotReady",
        message=f"{message}; {note}" if note else message,
    )


def _ready(pod: Pod, containers_ready: PodCondition, before: PodStatus) -> PodCondition:
    if containers_ready.status != "True":
        return msgspec.structs.replace(containers_ready, type="Ready")
    states = {c.type: c.status for c in before.conditions or ()}
    problems = []
    for gate in pod.spec.readiness_gates or ():
        if gate.condition_type not in states:
            problems.append(f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.')
        elif states[gate.condition_type] != "True":
            problems.append(
                f'the status of pod readiness gate "{gate.condition_type}" is not "True", '
                f"but {states[gate.condition_type]}"
            )
    if problems:
        return PodCondition(type="Ready", status="False", reason="ReadinessGatesNotReady", message=", ".join(problems))
    return PodCondition(type="Ready", status="True")


def _with_transition_times(
    conditions: Sequence[PodCondition], before: Sequence[PodCondition] | None, now: datetime
) -> list[PodCondition]:
    """Return the conditions with transition times, and the conditions owned by other components."""
    old = {condition.type: condition for condition in before or ()}
    reported = {condition.type for condition in conditions}
    for resize in ResizeCondition:  # Removed when the resize is complete.
        if resize not in reported:
            old.pop(resize, None)
    result = []
    for condition in conditions:
        previous = old.pop(condition.type, None)
        since = previous.last_transition_time if previous and previous.status == condition.status else None
        result.append(msgspec.structs.replace(condition, last_transition_time=since or now.replace(microsecond=0)))
    return [*result, *old.values()]


def _bool(value: bool) -> str:
    return "True" if value else "False"
