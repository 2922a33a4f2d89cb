"""Contracts for volumes: kinds of volumes and the volume manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from nodeagent.base.structs import Struct
from nodeagent.model.pod import Pod, Volume


class MountedVolume(Struct, frozen=True):
    """A volume that is set up and can be mounted into containers."""

    name: str
    host_path: str
    readonly: bool = False
    selinux_relabel: bool = False
    volume_name: str = ""
    """Name of the PersistentVolume; empty without one. Sub-paths are stored under this name, so that they are found
    when the volume is unmounted."""
    device_path: str = ""
    """Path of the block device on the host; empty for a file system."""
    global_map_path: str = ""
    """Directory with the maps of a block device for all pods; empty for a file system."""
    supplemental_group: int | None = None
    """Group that the containers' processes need to access the volume."""
    selinux_label: str = ""
    """Label with which the volume is mounted; empty if the runtime labels its files, or nothing does."""


class VolumeKind(Protocol):
    """A kind of volume, such as ``emptyDir``."""

    name: str
    """Directory name under the pod's volumes, such as ``kubernetes.io~empty-dir``."""

    def supports(self, volume: Volume) -> bool:
        """Return whether this kind handles *volume*.

        :param volume: the volume of a pod spec.
        """
        ...

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        """Set up the volume; idempotent, called again at each resync to refresh the content.

        :param pod: the pod of the volume.
        :param volume: the volume of the pod spec.
        :param directory: directory for the volume's data; its parent exists.
        :raises VolumeError: the volume cannot be set up now.
        """
        ...

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        """Undo :meth:`setup`; idempotent, also called for volumes that were set up before a restart of the agent.

        :param pod_uid: UID of the pod.
        :param directory: the directory passed to :meth:`setup`.
        :raises VolumeError: the volume is still in use; called again.
        """
        ...


@runtime_checkable
class DriverVolumeKind(VolumeKind, Protocol):
    """A kind whose volume directories are named after their drivers instead of the kind."""

    def directory_name(self, volume: Volume) -> str:
        """Return the directory name under the pod's volumes, such as ``vendor~driver``.

        :param volume: a supported volume.
        """
        ...

    def owns(self, directory: Path) -> bool:
        """Return whether a volume directory, possibly from before a restart, belongs to this kind. Blocking.

        :param directory: a volume directory under the pod's volumes.
        """
        ...


@runtime_checkable
class RefreshableVolumeKind(VolumeKind, Protocol):
    """A kind that determines whether a mounted volume has to be set up again.

    Without this method, :meth:`~VolumeKind.setup` is called at each resync.
    """

    async def needs_refresh(self, pod: Pod, volume: Volume, directory: Path) -> bool:
        """Return whether :meth:`~VolumeKind.setup` may have something to change, or to report, since its last success.

        :param pod: the pod of the volume.
        :param volume: the volume of the pod spec.
        :param directory: the directory passed to :meth:`~VolumeKind.setup`.
        :raises Exception: it cannot be determined; :meth:`~VolumeKind.setup` is called then.
        """
        ...


class VolumeManager(Protocol):
    """Sets up and releases all volumes of a pod."""

    async def prepare(self, pod: Pod) -> Mapping[str, MountedVolume]:
        """Set up every volume that a container mounts and return them by name.

        :param pod: the admitted pod.
        :raises VolumeError: volumes are not ready; the message names them and the reasons.
        """
        ...

    async def release(self, pod_uid: str) -> None:
        """Unmount and remove the volumes of a terminated pod.

        :param pod_uid: UID of a terminated pod.
        :raises VolumeError: a volume is still in use; call again.
        """
        ...

    def pods_with_volumes(self) -> Sequence[str]:
        """Return the UIDs of pods that have volume directories on disk, desired or not."""
        ...


@runtime_checkable
class ProgressReportingVolumeManager(Protocol):
    """A volume manager that also reports its progress."""

    def pending(self, pod_uid: str) -> Mapping[str, float]:
        """Return the volumes that are being set up, each with the monotonic start time.

        :param pod_uid: UID of the pod.
        """
        ...


@runtime_checkable
class ChangeableVolumeManager(Protocol):
    """A volume manager whose kinds can be replaced while the agent runs; volumes stay mounted."""

    def replace_kinds(self, removed: Sequence[VolumeKind], added: Sequence[VolumeKind]) -> None:
        """Replace kinds. An added kind adopts the volumes of a removed one of the same name.

        :param removed: kinds that are in use.
        :param added: the kinds to use instead; a new one takes precedence over the others.
        :raises VolumeError: pods use volumes of a kind that no added one replaces; nothing was changed.
        """
        ...
