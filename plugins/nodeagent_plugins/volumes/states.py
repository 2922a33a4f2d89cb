"""State of volumes for operators: phase, running call, last error and next attempt. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nodeagent.contracts.persistent_volumes import VolumeSpec, VolumeState
from nodeagent_plugins.volumes import metrics
from nodeagent_plugins.volumes.actual_state import DeviceState, NodeVolume
from nodeagent_plugins.volumes.operations import Failure, Operation, OperationQueue
from nodeagent_plugins.volumes.population import PodVolumes, Populator

if TYPE_CHECKING:
    from nodeagent_plugins.volumes.reconciler import Reconciler
    from nodeagent_plugins.volumes.startup import Startup

_CALLS = {
    metrics.MOUNT: ("Mounting", "SetUp"),
    metrics.MAP: ("Mounting", "MapPodDevice"),
    metrics.UNMOUNT: ("Unmounting", "TearDown"),
    metrics.UNMAP: ("Unmounting", "UnmapPodDevice"),
    metrics.UNMOUNT_DEVICE: ("Unstaging", "UnmountDevice"),
    metrics.UNMAP_DEVICE: ("Unstaging", "TearDownDevice"),
    metrics.DETACH: ("Detaching", "Detach"),
    metrics.VERIFY_ATTACHED: ("Attaching", "VerifyControllerAttachedVolume"),
    metrics.EXPAND: ("Mounted", "NodeExpandVolume"),
}
_MOUNT_STEPS = {"Attaching": "WaitForAttach", "Staging": "MountDevice"}
"""Call of a mount that has not reached the volume of the pod, by phase."""


def volume_states(
    reconciler: Reconciler, startup: Startup, populator: Populator, pod_uid: str = ""
) -> Sequence[VolumeState]:
    """Return the volumes of a pod, or of all pods if *pod_uid* is empty, sorted by pod and name."""
    volumes = reconciler.volumes.of_pod(pod_uid) if pod_uid else list(reconciler.volumes.values())
    found = [state for volume in volumes for state in _states_of(volume, reconciler.queue, pod_uid)]
    for path, text in startup.failed.items():
        uid = path.parents[2].name if len(path.parents) > 2 else ""
        if not pod_uid or uid == pod_uid:
            error = text or "no volume plugin supports it"
            kind = path.parent.name
            found.append(
                VolumeState(uid, "", path.name, kind, metrics.plugin_name(kind), "Uncertain", str(path), error=error)
            )
    own = populator.of(pod_uid)
    for pod_volumes in populator.pods() if not pod_uid else [own] if own is not None else []:
        found.extend(_unresolved(pod_volumes))
    return sorted(found, key=lambda state: (state.pod_uid, state.volume, state.name))


def pending_volumes(pod_volumes: PodVolumes | None, queue: OperationQueue) -> Mapping[str, float]:
    """Return the volumes of a pod that are being mounted, with their start times."""
    if pod_volumes is None:
        return {}
    uid, pending = pod_volumes.pod.uid, {}
    for name, volume in pod_volumes.volumes.items():
        running = [operation.started for operation in queue.running(volume.unique_name)]
        if not volume.is_ready(uid) and (running or not volume.paced):
            desired = volume.desired.get(uid)
            pending[name] = min([*running, *([desired.since] if desired is not None and not volume.paced else [])])
    return pending


def _unresolved(pod_volumes: PodVolumes) -> Iterator[VolumeState]:
    """Return the volumes whose source is unknown, such as those of a claim that is not bound."""
    pod = pod_volumes.pod
    for volume in pod.spec.volumes or ():
        if volume.name not in pod_volumes.problems or volume.name in pod_volumes.volumes:
            continue
        claim = ""
        if volume.persistent_volume_claim is not None:
            claim = str(volume.persistent_volume_claim.get("claimName") or "")
        elif volume.ephemeral is not None:
            claim = f"{pod.name}-{volume.name}"
        error = pod_volumes.problems[volume.name].removeprefix(f"{volume.name}: ")
        namespace = pod.namespace if claim else ""
        yield VolumeState(
            pod.uid, volume.name, volume.name, "", "", "Resolving", claim=claim, claim_namespace=namespace, error=error
        )


def _states_of(volume: NodeVolume, queue: OperationQueue, pod_uid: str) -> Iterator[VolumeState]:
    running, failures = queue.running(volume.unique_name), queue.failures(volume.unique_name)
    for uid in [pod_uid] if pod_uid else volume.desired.keys() | volume.mounts.keys():
        desired, mount = volume.desired.get(uid), volume.mounts.get(uid)
        operation = next((each for each in running if each.pod in ("", uid)), None)
        failure = queue.failure(volume.unique_name, uid) or queue.failure(volume.unique_name, "")
        spec = desired.spec if desired is not None else mount.spec if mount is not None else None
        names = desired.names if desired is not None else mount.names if mount is not None else []
        directory = desired.directory if desired is not None else mount.volume.directory if mount is not None else None
        path = mount.mounted.host_path if mount is not None and mount.mounted is not None else str(directory or "")
        name = spec.name if spec is not None else mount.volume.name if mount is not None else ""
        claim, namespace = _claim(spec)
        yield _state(
            volume,
            operation,
            failure,
            VolumeState(
                uid, " ".join(names), name, volume.kind.name, volume.plugin, _phase(volume, uid), path, claim, namespace
            ),
        )
    staged = volume.device_state is not DeviceState.NOT_MOUNTED
    if not pod_uid and volume.unused and (staged or running or failures):
        device = volume.device
        state = VolumeState(
            "",
            "",
            device.name if device is not None else volume.unique_name,
            volume.kind.name,
            volume.plugin,
            "Unstaging" if staged else "Detaching",
            str(device.path) if device is not None else "",
        )
        yield _state(volume, running[0] if running else None, failures[0] if failures else None, state)


def _state(volume: NodeVolume, operation: Operation | None, failure: Failure | None, state: VolumeState) -> VolumeState:
    phase, call, since = state.phase, "", 0.0
    if operation is not None:
        phase, call = _CALLS.get(operation.name, (phase, operation.name))
        since = operation.started
        if phase == "Mounting" and state.phase in ("Attaching", "Staging", "Mounted"):
            phase, call = state.phase, _MOUNT_STEPS.get(state.phase, call)
    error, due = "", 0.0
    if failure is not None:
        error = failure.text
        due = 0.0 if operation is not None or volume.paced else failure.due
        call = call or _CALLS.get(failure.name, ("", failure.name))[1]
    return VolumeState(
        state.pod_uid,
        state.volume,
        state.name,
        state.kind,
        state.plugin,
        phase,
        state.path,
        state.claim,
        state.claim_namespace,
        call,
        since,
        error,
        due,
    )


def _phase(volume: NodeVolume, uid: str) -> str:
    """Return the phase of a volume without an operation."""
    if uid not in volume.desired:
        return "Unmounting"
    if volume.is_ready(uid):
        return "Mounted"
    if volume.attachable and not volume.attached:
        return "Attaching"
    if uid in volume.mounts and not volume.paced:
        return "Uncertain"
    staged = volume.features.device is None or volume.device_state is DeviceState.MOUNTED
    return "Mounting" if staged else "Staging"


def _claim(spec: VolumeSpec | None) -> tuple[str, str]:
    if spec is None or spec.claim is None:
        return "", ""
    return spec.claim.metadata.name, spec.claim.metadata.namespace
