"""Desired volumes of a pod: the volumes that its containers use, with their sources and kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import field

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.events import EventType
from nodeagent.contracts.persistent_volumes import ClaimResolver, PersistentVolumeKind, VolumeMode, VolumeSpec
from nodeagent.errors import NodeAgentError, VolumeError
from nodeagent.model.pod import Pod, Volume
from nodeagent_plugins.volumes.actual_state import DesiredMount, NodeVolume, NodeVolumes
from nodeagent_plugins.volumes.expansion import claim_size
from nodeagent_plugins.volumes.features import features_of
from nodeagent_plugins.volumes.kinds import AdaptedKind, Kinds, shared_name, unique_name
from nodeagent_plugins.volumes.reconstruction import VOLUME_DEVICES, VOLUMES
from nodeagent_plugins.volumes.selinux import MountLabels

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext


READ_AGAIN_SECONDS = 300.0
"""Interval at which the PersistentVolume of a mounted volume is read, also if its claim has not changed; and the claim,
if the kind does not expand volumes."""
CLAIMS_OF_EACH_SYNC = 60
"""Maximum number of mounted volumes whose claims are read at each pod sync. With more volumes, one claim per second is
read, because these requests use most of the CPU time for volumes that do not change."""


_OTHER_LABEL = (
    "waiting for unmount of volume {}, because it is already mounted to a different pod with a different SELinux label"
)


class PodVolumes(MutableStruct):
    """The desired volumes of one pod."""

    pod: Pod
    volumes: dict[str, NodeVolume] = field(default_factory=dict)
    """By name in the pod spec."""
    problems: dict[str, str] = field(default_factory=dict)
    """Volumes that could not be processed, by name, with the reasons."""


class Populator:
    """Determines the volumes that a pod needs and adds them to the desired state.

    :param volumes: all volumes on this node.
    """

    def __init__(
        self, context: CgroupsContext, kinds: Kinds, claims: ClaimResolver | None, volumes: NodeVolumes
    ) -> None:
        self._context, self._kinds, self._claims, self._volumes = context, kinds, claims, volumes
        self._pods: dict[str, PodVolumes] = {}
        self._mount_labels = MountLabels(context.gates)

    def of(self, pod_uid: str) -> PodVolumes | None:
        """Return the desired volumes of a pod, as last processed."""
        return self._pods.get(pod_uid)

    def pods(self) -> list[PodVolumes]:
        """Return the desired volumes of all pods."""
        return list(self._pods.values())

    async def process(self, pod: Pod) -> PodVolumes:
        """Process the pod's volumes again; a volume that was processed before stays desired if this fails now."""
        known = self._pods.get(pod.uid)
        result = self._pods[pod.uid] = PodVolumes(pod, dict(known.volumes) if known is not None else {})
        modes = used_volumes(pod)
        for volume in pod.spec.volumes or ():
            # The runtime mounts images on its own.
            if volume.name not in modes or volume.image is not None:
                continue
            current = result.volumes.get(volume.name)
            if current is not None and current.paced and self._request_again(current, pod, volume):
                continue
            if current is not None and not current.paced and self._is_settled(current, pod, volume):
                continue
            try:
                record = await self._process(pod, volume, modes[volume.name], current)
                result.volumes[volume.name] = record
                if record.label_differs(pod.uid) and record.mounts.keys() - {pod.uid}:
                    result.problems[volume.name] = _OTHER_LABEL.format(record.desired[pod.uid].spec.name)
            except (NodeAgentError, OSError) as error:
                result.problems[volume.name] = str(error)
        return result

    def remove(self, pod_uid: str) -> None:
        """Remove the volumes of a pod from the desired state."""
        self._pods.pop(pod_uid, None)
        for volume in self._volumes.of_pod(pod_uid):
            volume.desired.pop(pod_uid, None)

    def _request_again(self, current: NodeVolume, pod: Pod, volume: Volume) -> bool:
        desired = current.desired.get(pod.uid)
        if desired is None or desired.spec.volume != volume:
            return False
        desired.pod, desired.requested = pod, True
        return True

    def _is_settled(self, current: NodeVolume, pod: Pod, volume: Volume) -> bool:
        """Return whether no change of the claim affects a mounted volume: its kind neither expands nor refreshes it."""
        desired, mount, features = current.desired.get(pod.uid), current.mounts.get(pod.uid), current.features
        if desired is None or mount is None or mount.released or not current.is_ready(pod.uid):
            return False
        if features.expandable is not None or features.refreshed is not None or features.attachable is not None:
            return False
        if desired.spec.volume != volume or self._context.clock.now() - desired.read_at >= READ_AGAIN_SECONDS:
            return False
        desired.pod = pod
        return True

    async def _process(
        self, pod: Pod, volume: Volume, modes: set[VolumeMode], current: NodeVolume | None
    ) -> NodeVolume:
        spec = VolumeSpec(volume.name, volume)
        now = self._context.clock.now()
        mounted = current.desired.get(pod.uid) if current is not None and current.is_ready(pod.uid) else None
        if mounted is not None and now - mounted.read_at >= READ_AGAIN_SECONDS:
            mounted = None
        kind: PersistentVolumeKind
        known = current if mounted is not None and mounted.spec.persistent_volume is not None else None
        if known is not None and known.paced:
            known = None
        adapted = self._kinds.adapted_for(spec) if known is None else None
        if adapted is not None:
            kind, directory_kind = adapted, adapted.directory_name(spec)
        else:
            if known is not None and mounted is not None and self._was_read(mounted, volume):
                spec = mounted.spec
            elif self._claims is not None:
                spec = await self._claims.resolve(pod, volume, mounted.spec if mounted is not None else None)
                if mounted is not None:
                    mounted.claim_read_at = now
            if known is not None and mounted is not None and spec.persistent_volume is mounted.spec.persistent_volume:
                check_mode(spec, modes, known.kind)
                attachable, refresh = await self._properties(known.kind, spec)
                if known.desired.get(pod.uid) is mounted:
                    self._update(known, mounted, pod, spec, attachable, refresh)
                    return known
            kind = self._find(pod, spec)
            adapted = kind if isinstance(kind, AdaptedKind) else None
            directory_kind = adapted.directory_name(spec) if adapted is not None else kind.name
            check_mode(spec, modes, kind)
        name = unique_name(kind, spec, pod.uid)
        base = VOLUME_DEVICES if spec.mode is VolumeMode.BLOCK else VOLUMES
        directory = self._context.pod_dir(pod.uid) / base / directory_kind / spec.name
        label, needed = "", ""
        if adapted is None:
            label, needed = await self._labels(pod, spec, kind, self._volumes.get(name))
        attachable, refresh = (False, True) if adapted is not None else await self._properties(kind, spec)
        record = self._record(kind, spec, name, adapted=adapted is not None)
        desired = record.desired.get(pod.uid)
        if desired is not None and (mounted is None or desired.spec.persistent_volume is not spec.persistent_volume):
            desired.read_at = now
        self._update(record, desired, pod, spec, attachable, refresh)
        if desired is None:
            self._take_mount(record, pod.uid, directory)
            self._volumes.assign(record, pod.uid)
            record.desired[pod.uid] = DesiredMount(
                pod, spec, [volume.name], directory, now, label, needed, read_at=now, claim_read_at=now
            )
            return record
        if volume.name not in desired.names:
            desired.names.append(volume.name)
        return record

    def _was_read(self, mounted: DesiredMount, volume: Volume) -> bool:
        """Return whether the claim was read recently, considering the number of mounted volumes."""
        count = sum(1 for each in self._volumes.values() if not each.paced)
        interval = count if count > CLAIMS_OF_EACH_SYNC else 0
        return mounted.spec.volume == volume and self._context.clock.now() - mounted.claim_read_at < interval

    async def _properties(self, kind: PersistentVolumeKind, spec: VolumeSpec) -> tuple[bool, bool]:
        """Return whether the volume has to be attached, and whether its content is refreshed at each pod sync."""
        attachable = await self._attachable(kind, spec)
        refreshed = features_of(kind).refreshed
        return attachable, refreshed is not None and await refreshed.needs_refresh(spec)

    def _update(
        self,
        record: NodeVolume,
        desired: DesiredMount | None,
        pod: Pod,
        spec: VolumeSpec,
        attachable: bool,
        refresh: bool,
    ) -> None:
        """Update what can change while a pod needs the volume."""
        if attachable != record.attachable:
            record.attachable = attachable
            self._context.trigger_node_status()
        if record.size is None:
            record.size = claim_size(spec.claim)
        mount = record.mounts.get(pod.uid)
        if mount is not None:
            mount.released = False
        if desired is not None:
            desired.pod, desired.spec = pod, spec
            desired.requested = refresh or desired.requested

    def _find(self, pod: Pod, spec: VolumeSpec) -> PersistentVolumeKind:
        try:
            return self._kinds.of(spec)
        except VolumeError as error:
            if spec.persistent_volume is None:
                note = f'MountVolume.SetUp failed for volume "{spec.name}" : {error}'
                self._context.recorder.record(pod.reference(), EventType.WARNING, "FailedMount", note)
                raise VolumeError(f"{spec.name}: {error}") from error
            raise

    def _record(self, kind: PersistentVolumeKind, spec: VolumeSpec, name: str, *, adapted: bool) -> NodeVolume:
        record = self._volumes.get(name)
        if record is None:
            record = self._volumes[name] = NodeVolume(name, kind, kind.plugin_name(spec), adapted)
        elif not adapted:
            record.plugin = kind.plugin_name(spec)
        record.migrated = spec.migrated
        return record

    def _take_mount(self, record: NodeVolume, pod_uid: str, directory: Path) -> None:
        """Move a mount that was found in *directory* from a volume whose name could not be determined."""
        for other in self._volumes.of_pod(pod_uid):
            mount = other.mounts.get(pod_uid)
            if other is not record and mount is not None and mount.volume.directory == directory:
                del other.mounts[pod_uid]
                name = shared_name(record.kind, record.unique_name, mount.volume)
                volume = replace(mount.volume, unique_name=name)
                record.mounts[pod_uid] = replace(mount, volume=volume, released=False)
                return

    async def _attachable(self, kind: PersistentVolumeKind, spec: VolumeSpec) -> bool:
        attachable = features_of(kind).attachable
        if attachable is None or self._context.api is None or not attachable.unique_name(spec):
            return False
        return await attachable.attachable(spec)

    async def _labels(
        self, pod: Pod, spec: VolumeSpec, kind: PersistentVolumeKind, record: NodeVolume | None
    ) -> tuple[str, str]:
        """Return the label of the mount, and the label that the pod needs; both are selected once per pod."""
        desired = record.desired if record is not None else {}
        if pod.uid in desired:
            return desired[pod.uid].selinux_label, desired[pod.uid].needed_label
        return await self._mount_labels.select(pod, spec, kind, [each.needed_label for each in desired.values()])


def used_volumes(pod: Pod) -> dict[str, set[VolumeMode]]:
    """Return the names of the volumes that containers use, with the modes in which they use them."""
    modes: dict[str, set[VolumeMode]] = {}
    for _, container in pod.containers():
        for mount in container.volume_mounts or ():
            modes.setdefault(mount.name, set()).add(VolumeMode.FILESYSTEM)
        for device in container.volume_devices or ():
            modes.setdefault(device.name, set()).add(VolumeMode.BLOCK)
    return modes


def check_mode(spec: VolumeSpec, modes: set[VolumeMode], kind: PersistentVolumeKind) -> None:
    """Check that containers use the volume in the mode of its PersistentVolume.

    :raises VolumeError: they do not, or the kind has no block devices.
    """
    name = spec.volume.name
    if spec.mode is VolumeMode.BLOCK and VolumeMode.FILESYSTEM in modes:
        raise VolumeError(f"volume {name} has volumeMode Block, but is specified in volumeMounts")
    if spec.mode is VolumeMode.FILESYSTEM and VolumeMode.BLOCK in modes:
        raise VolumeError(f"volume {name} has volumeMode Filesystem, but is specified in volumeDevices")
    block = features_of(kind).block
    if spec.mode is VolumeMode.BLOCK and (block is None or not block.supports_block):
        raise VolumeError(f'volume "{spec.name}": volumes of {kind.plugin_name(spec)} cannot be used as block devices')
