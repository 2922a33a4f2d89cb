"""Operations that mount and unmount volumes, and the state that each result leaves."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nodeagent.base.mounts.table import mount_references, read_mounts
from nodeagent.base.node_affinity import node_matches
from nodeagent.contracts.api import NODES
from nodeagent.contracts.events import EventType
from nodeagent.contracts.persistent_volumes import (
    MOUNT_OPTIONS,
    DeviceOnDisk,
    MountRequest,
    VolumeMode,
    VolumeOnDisk,
    VolumeSpec,
)
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import TransientVolumeError, UncertainVolumeError, VolumeError
from nodeagent.model.persistent_volume import READ_WRITE_ONCE_POD
from nodeagent_plugins.volumes.actual_state import DesiredMount, DeviceState, MountState, NodeVolume, PodMount
from nodeagent_plugins.volumes.expansion import VolumeExpander
from nodeagent_plugins.volumes.kinds import shared_name
from nodeagent_plugins.volumes.metrics import MOUNT_SECONDS
from nodeagent_plugins.volumes.mounts import in_thread
from nodeagent_plugins.volumes.operations import error_text

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

T = TypeVar("T")
GID_ANNOTATION = "pv.beta.kubernetes.io/gid"
_IN_USE_BY_ANOTHER_POD = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"


class MountOperations:
    """Performs single operations; the reconciler selects them and guarantees that they do not overlap."""

    def __init__(self, context: CgroupsContext, expander: VolumeExpander) -> None:
        self._context, self._expander = context, expander

    async def mount(self, volume: NodeVolume, pod_uid: str) -> None:
        """Stage the volume if necessary and mount it for a pod, or refresh its content if it is mounted.

        :raises VolumeError: the mount failed; an event was recorded.
        """
        desired = volume.desired[pod_uid]
        desired.requested = False
        spec, before = desired.spec, volume.mounts.get(pod_uid)
        step = "MapVolume." if spec.mode is VolumeMode.BLOCK else "MountVolume."
        first = "SetUpDevice" if spec.mode is VolumeMode.BLOCK else "SetUp"
        await self._attempt(desired, f"{step}NodeAffinity check", self._check_affinity(spec))
        await self._attempt(desired, f"{step}{first}", _check_access(volume, desired))
        device_path, features = volume.device_path, volume.features
        if features.attachable is not None and volume.attachable:
            volume.detached = False
            waiting = features.attachable.wait_for_attach(spec, device_path)
            device_path = await self._attempt(desired, f"{step}WaitForAttach", waiting)
            volume.attached = True
        request = MountRequest(
            desired.pod,
            spec,
            desired.directory,
            device_path,
            desired.selinux_label,
            remount=before is not None and before.state is MountState.MOUNTED,
            reconstructed=before is not None and before.reconstructed,
        )
        has_device = features.device is not None and bool(features.device.unique_name(spec))
        if has_device and volume.device_state is not DeviceState.MOUNTED:
            device_step = "SetUpDevice" if spec.mode is VolumeMode.BLOCK else "MountDevice"
            await self._attempt(desired, f"{step}{device_step}", self._mount_device(volume, request))
            if volume.desired.get(pod_uid) is not desired:
                return  # The pod has terminated since.
        pod_step = "MapPodDevice" if spec.mode is VolumeMode.BLOCK else "SetUp"
        mounted = await self._attempt(desired, f"{step}{pod_step}", self._mount_pod(volume, desired, request))
        if not request.remount:
            expansion = self._expander.expand_at_mount(volume, desired, volume.mounts[pod_uid].volume)
            await self._attempt(desired, _expansion_step(spec.mode), expansion)
        self._mounted(volume, desired, mounted, first=not request.remount)

    async def set_up(self, volume: NodeVolume, pod_uid: str) -> None:
        """Set up or refresh a volume of an adapted kind; after a failure it counts as possibly mounted.

        :raises VolumeError: the setup failed; an event was recorded.
        """
        desired = volume.desired[pod_uid]
        desired.requested = False
        mount = volume.mounts.get(pod_uid)
        if mount is None:
            on_disk = VolumeOnDisk(pod_uid, desired.spec.name, desired.directory)
            mount = volume.mounts[pod_uid] = PodMount(on_disk, MountState.UNCERTAIN, desired.names, desired.spec)
        spec = desired.spec
        await self._attempt(desired, "MountVolume.NodeAffinity check", self._check_affinity(spec))
        request = MountRequest(desired.pod, spec, desired.directory)
        mounted = await self._attempt(desired, "MountVolume.SetUp", volume.kind.mount(request))
        if spec.persistent_volume is not None:
            mounted = replace(mounted, volume_name=spec.name, supplemental_group=supplemental_group(spec))
        mount.mounted = mounted
        mount.names, mount.state = desired.names, MountState.MOUNTED

    async def unmount(self, volume: NodeVolume, pod_uid: str) -> None:
        """Unmount the volume of a pod.

        :raises Exception: the volume may still be mounted.
        """
        mount = volume.mounts[pod_uid]
        mount.state = MountState.UNCERTAIN
        await volume.kind.unmount(mount.volume)
        del volume.mounts[pod_uid]

    async def unmount_device(self, volume: NodeVolume) -> None:
        """Unstage a volume that no pod uses.

        :raises Exception: the volume may still be staged or in use.
        """
        kind = volume.features.device
        assert kind is not None
        volume.device_state = DeviceState.UNCERTAIN
        device = volume.device or await self._find_device(volume)
        if device is not None:
            await self._check_references(device)
            await kind.unmount_device(device)
            await in_thread(check_unused, device.device_path)
        volume.device_state, volume.device, volume.device_reconstructed = DeviceState.NOT_MOUNTED, None, False
        volume.selinux_label = ""
        volume.expansion_stopped = volume.expansion_failed = False

    async def detach(self, volume: NodeVolume) -> None:
        """Request the detachment of a volume that is neither mounted nor staged.

        :raises VolumeError: it may still be attached.
        """
        kind = volume.features.node_attached
        assert kind is not None
        await kind.detach(volume.unique_name)
        volume.attached, volume.detached = False, True

    async def verify_attached(self, volume: NodeVolume) -> None:
        """Check in the node object, freshly read, that the volume is attached and reported in use.

        The controller removes a volume from the status before it detaches it, so a cached object is not sufficient.

        :raises VolumeError: it is not attached now.
        """
        api = self._context.api
        assert api is not None
        node = await api.get(NODES, self._context.node_name, into=dict)
        status = node.get("status") or {}
        if volume.unique_name not in (status.get("volumesInUse") or ()):
            raise VolumeError("Volume has not been added to the list of VolumesInUse in the node's volume status")
        path = attached_path(status, volume.unique_name)
        if path is None:
            raise VolumeError("Volume not attached according to node status")
        volume.attached, volume.device_path = True, path

    async def _attempt(self, desired: DesiredMount, step: str, work: Awaitable[T]) -> T:
        """Return the result of *work*; record the event of a failure."""
        try:
            return await work
        except Exception as error:
            if isinstance(error, VolumeError) and error.reason == MOUNT_OPTIONS:
                step = "MountVolume.MountOptionSupport check"
            block = desired.spec.mode is VolumeMode.BLOCK
            reason = "FailedMapVolume" if block and "NodeAffinity" not in step else "FailedMount"
            note = f'{step} failed for volume "{desired.spec.name}" : {error_text(error)}'
            if step.endswith("while expanding volume"):
                note = f'{step} for volume "{desired.spec.name}" : {error_text(error)}'
            self._context.recorder.record(desired.pod.reference(), EventType.WARNING, reason, note)
            raise

    async def _check_affinity(self, spec: VolumeSpec) -> None:
        volume = spec.persistent_volume
        if volume is None or volume.spec.node_affinity is None or not volume.spec.node_affinity.required:
            return
        terms = volume.spec.node_affinity.required.get("nodeSelectorTerms") or ()
        node: Mapping[str, Any] = self._context.node() or {}
        labels = (node.get("metadata") or {}).get("labels") or {}
        if not node_matches({}, terms, labels, self._context.node_name):
            raise VolumeError("no matching NodeSelectorTerms")

    async def _mount_device(self, volume: NodeVolume, request: MountRequest) -> None:
        kind, before = volume.features.device, volume.device_state
        assert kind is not None
        volume.device_state = DeviceState.UNCERTAIN
        volume.selinux_label = request.selinux_label
        try:
            device = await kind.mount_device(request)
        except (UncertainVolumeError, asyncio.CancelledError):
            raise
        except TransientVolumeError:
            volume.device_state = before
            raise
        except VolumeError:
            if not volume.device_reconstructed and not volume.mounts:
                volume.device_state, volume.device, volume.selinux_label = DeviceState.NOT_MOUNTED, None, ""
            raise
        volume.device, volume.device_state, volume.device_reconstructed = device, DeviceState.MOUNTED, False

    async def _mount_pod(self, volume: NodeVolume, desired: DesiredMount, request: MountRequest) -> MountedVolume:
        uid, spec = desired.pod.uid, desired.spec
        before = volume.mounts.get(uid)
        mount = before
        if mount is None:
            on_disk = VolumeOnDisk(uid, spec.name, desired.directory, spec.mode, "", request.selinux_label, spec)
            on_disk = replace(on_disk, unique_name=shared_name(volume.kind, volume.unique_name, on_disk))
            mount = volume.mounts[uid] = PodMount(on_disk, MountState.UNCERTAIN)
            volume.selinux_label = request.selinux_label
        mount.names, mount.spec = desired.names, spec
        mount.volume = replace(mount.volume, spec=spec)
        try:
            return await volume.kind.mount(request)
        except (UncertainVolumeError, asyncio.CancelledError):
            raise
        except TransientVolumeError:
            if before is None:
                del volume.mounts[uid]
            raise
        except VolumeError:
            if mount.state is MountState.UNCERTAIN and not mount.reconstructed:
                del volume.mounts[uid]
            raise

    def _mounted(self, volume: NodeVolume, desired: DesiredMount, mounted: MountedVolume, *, first: bool) -> None:
        mount, spec = volume.mounts[desired.pod.uid], desired.spec
        mounted = replace(
            mounted,
            volume_name=spec.name,
            readonly=mounted.readonly or spec.read_only,
            supplemental_group=supplemental_group(spec),
            selinux_label=desired.selinux_label,
        )
        mount.mounted, mount.state, mount.reconstructed = mounted, MountState.MOUNTED, False
        if first:
            MOUNT_SECONDS.observe(self._context.clock.now() - desired.since, volume.plugin, "overall_volume_mount")
        if spec.mode is VolumeMode.BLOCK and first:
            path = mounted.device_path or mounted.host_path
            for text in (
                f'MapVolume.MapPodDevice succeeded for volume "{spec.name}" globalMapPath "{mounted.global_map_path}"',
                f'MapVolume.MapPodDevice succeeded for volume "{spec.name}" volumeMapPath "{path}"',
            ):
                self._context.recorder.record(desired.pod.reference(), EventType.NORMAL, "SuccessfulMountVolume", text)

    async def _find_device(self, volume: NodeVolume) -> DeviceOnDisk | None:
        """Return the device after an uncertain call; a kind lists every volume that may be staged."""
        kind = volume.features.device
        assert kind is not None
        devices = await in_thread(kind.devices_on_disk)
        return next((device for device in devices if device.unique_name == volume.unique_name), None)

    async def _check_references(self, device: DeviceOnDisk) -> None:
        if device.mode is VolumeMode.BLOCK:
            return
        references = await in_thread(lambda: mount_references(device.path, read_mounts()))
        if references:
            raise VolumeError(
                f'GetDeviceMountRefs check failed: the device mount path "{device.path}" is still mounted by other '
                f"references [{' '.join(references)}]"
            )


async def _check_access(volume: NodeVolume, desired: DesiredMount) -> None:
    source = desired.spec.persistent_volume
    others = volume.mounts.keys() - {desired.pod.uid}
    if source is not None and source.spec.access_modes == [READ_WRITE_ONCE_POD] and others:
        raise TransientVolumeError(_IN_USE_BY_ANOTHER_POD)


def check_unused(path: str) -> None:
    """Check that the kernel no longer uses a block device, for example for another mount. Blocking.

    :param path: path of the device; another path, such as the name of an attachment, is ignored.
    :raises VolumeError: the device is in use.
    """
    if not path.startswith("/"):
        return
    try:
        if stat.S_ISBLK(Path(path).stat().st_mode):
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise VolumeError("the device is in use when it was no longer expected to be in use") from error


def supplemental_group(spec: VolumeSpec) -> int | None:
    """Return the group in the annotation of the PersistentVolume; ``None`` without a valid one."""
    volume = spec.persistent_volume
    text = (volume.metadata.annotations or {}).get(GID_ANNOTATION, "") if volume is not None else ""
    return int(text) if text.isascii() and text.isdecimal() else None


def attached_path(status: Mapping[str, Any], unique_name: str) -> str | None:
    """Return the device path of an attached volume in a node status; ``None`` if it is not attached."""
    for each in status.get("volumesAttached") or ():
        if each.get("name") == unique_name:
            return str(each.get("devicePath") or "")
    return None


def _expansion_step(mode: VolumeMode) -> str:
    if mode is VolumeMode.BLOCK:
        return "MapVolume.MarkVolumeAsMounted failed while expanding volume"
    return "MountVolume.Setup failed while expanding volume"
