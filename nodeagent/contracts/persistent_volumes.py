"""Contracts for volumes that outlive a pod: claims, and kinds with devices, attachment, blocks and expansion.

A kind implements :class:`PersistentVolumeKind` and those of the other protocols that apply to it; the volume manager
calls them one at a time for each volume. Their errors determine the state of the volume:
:class:`~nodeagent.errors.UncertainVolumeError` if the call may have taken effect,
:class:`~nodeagent.errors.TransientVolumeError` if nothing was started, any other
:class:`~nodeagent.errors.VolumeError` if the volume is certainly not mounted. A cancelled call and an exception of
another class count as uncertain.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from nodeagent.base.structs import Struct
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.model.persistent_volume import PersistentVolume, PersistentVolumeClaim
from nodeagent.model.pod import Pod, Volume

MOUNT_OPTIONS = "MountOptionSupport"
"""Reason of an error of :meth:`PersistentVolumeKind.mount` if the kind has no mount options, but the volume does."""


class VolumeMode(StrEnum):
    """Form in which containers see a volume; the values are those of ``volumeMode``."""

    FILESYSTEM = "Filesystem"
    BLOCK = "Block"


class VolumeSpec(Struct, frozen=True):
    """A volume of a pod with its source: inline, or the PersistentVolume of its claim."""

    name: str
    """Name of the volume's directory: the PersistentVolume, or the volume of the pod spec."""
    volume: Volume
    """The entry of the pod spec."""
    persistent_volume: PersistentVolume | None = None
    """``None`` if the source is inline; an in-tree source of a cloud is translated to its CSI driver."""
    claim: PersistentVolumeClaim | None = None
    read_only: bool = False
    mode: VolumeMode = VolumeMode.FILESYSTEM
    migrated: bool = False
    """True if an in-tree source of a cloud was translated to its CSI driver."""


class ClaimResolver(Protocol):
    """Resolves volumes of pods to their sources with the permissions of the node."""

    async def resolve(self, pod: Pod, volume: Volume, known: VolumeSpec | None = None) -> VolumeSpec:
        """Return the volume with its source, freshly read.

        :param pod: the admitted pod.
        :param volume: the entry of the pod spec.
        :param known: the source with which the volume is mounted; if its claim is unchanged, the PersistentVolume need
            not be read again.
        :raises VolumeError: the claim cannot be used now; the message contains the reason.
        """
        ...


class MountRequest(Struct, frozen=True):
    """Parameters of one mount of a volume for a pod."""

    pod: Pod
    spec: VolumeSpec
    directory: Path
    """``pods/<uid>/volumes/<kind>/<name>`` below the root directory (``volumeDevices`` for blocks); its parent exists.
    """
    device_path: str = ""
    """The result of :meth:`AttachableVolumeKind.wait_for_attach`."""
    selinux_label: str = ""
    """Label of the mount option ``context``; empty if the volume is mounted without it."""
    remount: bool = False
    """True if the volume is mounted and only its content is refreshed."""
    reconstructed: bool = False
    """True if the volume was found on disk after a restart of the agent."""


class VolumeOnDisk(Struct, frozen=True):
    """A volume of a pod, known without any API object."""

    pod_uid: str
    name: str
    directory: Path
    mode: VolumeMode = VolumeMode.FILESYSTEM
    unique_name: str = ""
    """Name of the volume on this node, shared by its pods; empty if the volume belongs to one pod."""
    selinux_label: str = ""
    spec: VolumeSpec | None = None
    """The parts of the source that are known from the disk; ``None`` if nothing is."""


class DeviceOnDisk(Struct, frozen=True):
    """A volume that is staged on this node, known without any API object."""

    unique_name: str
    name: str
    path: Path
    """The staging path, such as ``…/globalmount``."""
    mode: VolumeMode = VolumeMode.FILESYSTEM
    device_path: str = ""
    selinux_label: str = ""


class PersistentVolumeKind(Protocol):
    """A kind of volume whose source may be a PersistentVolume."""

    name: str
    """Directory name under the pod's volumes, such as ``kubernetes.io~csi``."""

    def supports(self, spec: VolumeSpec) -> bool:
        """Return whether this kind mounts *spec*.

        :param spec: the volume with its source.
        """
        ...

    def plugin_name(self, spec: VolumeSpec) -> str:
        """Return the name in metrics, such as ``kubernetes.io/csi:driver``.

        :param spec: a supported volume.
        """
        ...

    async def mount(self, request: MountRequest) -> MountedVolume:
        """Mount the volume for a pod; idempotent. A remount refreshes the content and never replaces the mount.

        :param request: pod, volume and directory.
        :raises VolumeError: the volume is not mounted; see the module for the classes.
        """
        ...

    async def unmount(self, volume: VolumeOnDisk) -> None:
        """Undo :meth:`mount` and remove the volume's directory; idempotent, and reads no API object.

        :param volume: the volume, mounted by this or an earlier process.
        :raises VolumeError: the volume may still be mounted; called again with a back-off.
        """
        ...

    def reconstruct(self, pod_uid: str, directory: Path, mode: VolumeMode) -> VolumeOnDisk:
        """Return the volume of a directory from before a restart. Blocking.

        :param pod_uid: UID of the pod.
        :param directory: a directory under the pod's ``volumes`` or ``volumeDevices``.
        :param mode: the mode of the volume.
        :raises VolumeError: the volume cannot be identified; its directory is not changed.
        """
        ...


@runtime_checkable
class DeviceVolumeKind(PersistentVolumeKind, Protocol):
    """A kind that mounts a volume once on the node (stages it) before it is mounted for pods."""

    def unique_name(self, spec: VolumeSpec) -> str:
        """Return the name of the volume on this node, such as ``kubernetes.io/csi/<driver>^<handle>``.

        :param spec: a supported volume.
        :returns: the name, or an empty string if this volume has no device step.
        """
        ...

    async def mount_device(self, request: MountRequest) -> DeviceOnDisk:
        """Stage the volume; idempotent, because it is repeated after uncertain results and restarts.

        :param request: the first pod, volume and device path.
        :raises VolumeError: the volume is not staged; see the module for the classes.
        """
        ...

    async def unmount_device(self, device: DeviceOnDisk) -> None:
        """Undo :meth:`mount_device`; idempotent, and reads no API object.

        :param device: the staged volume; no pod uses it.
        :raises VolumeError: the volume may still be staged or in use; called again with a back-off.
        """
        ...

    def devices_on_disk(self) -> Sequence[DeviceOnDisk]:
        """Return the volumes that may have been staged before a restart, also those without a pod. Blocking."""
        ...


@runtime_checkable
class AttachableVolumeKind(DeviceVolumeKind, Protocol):
    """A kind whose volumes are attached to the node by a controller, which reads ``volumesInUse``."""

    async def attachable(self, spec: VolumeSpec) -> bool:
        """Return whether the volume has to be attached.

        :param spec: a supported volume.
        :raises VolumeError: this is not known now.
        """
        ...

    async def wait_for_attach(self, spec: VolumeSpec, device_path: str) -> str:
        """Return the device path of the attached volume.

        :param spec: a volume that the node status lists as attached.
        :param device_path: the device path in the node status; may be empty.
        :raises VolumeError: the volume is not attached.
        """
        ...


@runtime_checkable
class NodeAttachedVolumeKind(AttachableVolumeKind, Protocol):
    """A kind that requests attachments itself if no controller does (``enableControllerAttachDetach: false``).

    :meth:`~AttachableVolumeKind.wait_for_attach` then requests the attachment.
    """

    async def attachments(self) -> Sequence[str]:
        """Return the unique names of the volumes whose attachment this node has requested, also before a restart.

        :raises VolumeError: this is not known now.
        """
        ...

    async def detach(self, unique_name: str) -> None:
        """Request the detachment of a volume; idempotent.

        :param unique_name: name of a volume that is neither mounted nor staged.
        :raises VolumeError: the volume may still be attached; called again with a back-off.
        """
        ...


@runtime_checkable
class LimitedVolumeKind(AttachableVolumeKind, Protocol):
    """A kind that detects from a failed attachment that the node has reached its limit of volumes."""

    async def limit_exceeded(self, spec: VolumeSpec) -> bool:
        """Return whether the volume is not attached because the node has reached its limit; the pod is then rejected.

        The kind publishes the current limit, so that the scheduler selects another node. Does not raise; if the
        attachment cannot be read, the result is false.

        :param spec: a volume that is not attached.
        """
        ...


@runtime_checkable
class BlockVolumeKind(PersistentVolumeKind, Protocol):
    """A kind whose volumes containers can use as block devices; mounts with mode ``Block`` are maps."""

    supports_block: bool


@runtime_checkable
class ExpandableVolumeKind(PersistentVolumeKind, Protocol):
    """A kind that expands volumes on the node."""

    async def expand(self, volume: VolumeOnDisk, spec: VolumeSpec, size: int) -> bool:
        """Expand the mounted volume to at least *size* bytes; idempotent.

        :param volume: the mounted volume.
        :param spec: the volume with its source.
        :param size: the requested size in bytes.
        :returns: false if the kind does not expand this volume on the node.
        :raises VolumeError: the volume was not expanded; with the reason ``InUse`` or ``Infeasible``, a retry is
            useless.
        """
        ...


@runtime_checkable
class RefreshedVolumeKind(PersistentVolumeKind, Protocol):
    """A kind with volumes whose content expires, such as tokens."""

    async def needs_refresh(self, spec: VolumeSpec) -> bool:
        """Return whether a mounted volume has to be mounted again, as a remount, at each sync of its pod.

        :param spec: a supported volume.
        :raises VolumeError: this is not known now.
        """
        ...


@runtime_checkable
class LabeledVolumeKind(PersistentVolumeKind, Protocol):
    """A kind with volumes that can be mounted with an SELinux label (the mount option ``context``)."""

    async def supports_label(self, spec: VolumeSpec) -> bool:
        """Return whether the volume can be mounted with a label instead of being relabeled file by file.

        :param spec: a supported volume.
        :raises VolumeError: this is not known now.
        """
        ...


class VolumeFigures(Struct, frozen=True):
    """Sizes of a mounted volume in bytes and inodes."""

    available: int | None = None
    capacity: int | None = None
    used: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    inodes_used: int | None = None
    abnormal: bool | None = None
    """The driver's view of the volume's health; ``None`` if unknown."""
    message: str = ""


@runtime_checkable
class MeasuredVolumeKind(PersistentVolumeKind, Protocol):
    """A kind that measures its volumes itself."""

    async def measure(self, volume: VolumeOnDisk, spec: VolumeSpec) -> VolumeFigures | None:
        """Return the figures of a mounted volume, or ``None`` if they are not available.

        :param volume: the mounted volume.
        :param spec: the volume with its source.
        :raises VolumeError: the driver cannot be called.
        """
        ...


class VolumeState(Struct, frozen=True):
    """State of one volume of a pod, for ``why``, ``nodeagent volumes`` and the statistics."""

    pod_uid: str
    volume: str
    """Name in the pod spec; empty if the pod is not known."""
    name: str
    """Name of the directory: the PersistentVolume, or the volume of the pod spec."""
    kind: str
    """Directory name of the kind."""
    plugin: str
    """The kind or its driver, as in metrics."""
    phase: str
    """One of ``Resolving``, ``Attaching``, ``Staging``, ``Mounting``, ``Mounted``, ``Uncertain``, ``Unmounting``,
    ``Unstaging``, ``Detaching``."""
    path: str = ""
    claim: str = ""
    """Name of the claim; empty without one."""
    claim_namespace: str = ""
    call: str = ""
    """The running operation, such as ``NodePublishVolume``."""
    running_since: float = 0.0
    """Monotonic start time of the running operation; zero if none runs."""
    error: str = ""
    """The last error; empty after a success."""
    next_attempt: float = 0.0
    """Monotonic time of the next attempt; zero if none is planned."""


@runtime_checkable
class StatefulVolumeManager(Protocol):
    """A volume manager that keeps the state of each volume."""

    def states(self, pod_uid: str = "") -> Sequence[VolumeState]:
        """Return the volumes of a pod, or of all pods if *pod_uid* is empty, sorted by pod and name.

        :param pod_uid: UID of the pod.
        """
        ...

    async def measure(self, pod_uid: str, volume: str) -> VolumeFigures | None:
        """Return the figures of a mounted volume whose kind measures it; ``None`` if the kind does not.

        :param pod_uid: UID of the pod.
        :param volume: name in the pod spec.
        :raises VolumeError: the driver cannot be called.
        """
        ...
