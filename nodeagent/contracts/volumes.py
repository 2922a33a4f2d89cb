"""Volumes of a pod: kinds of volume, and the manager that prepares all of one pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from nodeagent.model.pod import Pod, Volume


@dataclass(frozen=True, slots=True)
class MountedVolume:
    """A volume that is ready to be mounted into containers."""

    name: str
    host_path: str
    readonly: bool = False
    selinux_relabel: bool = False


class VolumeKind(Protocol):
    """One kind of volume, such as ``emptyDir``."""

    name: str
    """Directory name under the pod's volumes, such as ``kubernetes.io~empty-dir``."""

    def supports(self, volume: Volume) -> bool: ...

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        """Prepare the volume; repeatable, and called again at each resync to refresh the content.

        :param directory: where this volume's data belongs; its parent exists.
        :raises VolumeError: it cannot be prepared now.
        """
        ...

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        """Undo :meth:`setup`; repeatable, and called for leftovers of an earlier run of the agent too."""
        ...


@runtime_checkable
class DriverVolumeKind(VolumeKind, Protocol):
    """A kind whose volumes lie in directories named for their drivers, instead of one named for the kind."""

    def directory_name(self, volume: Volume) -> str:
        """Return the directory name under the pod's volumes, such as ``vendor~driver``."""
        ...

    def owns(self, directory: Path) -> bool:
        """Tell whether a volume's directory, of whichever run of the agent, is of this kind. Blocks."""
        ...


class VolumeManager(Protocol):
    """Prepares and releases all volumes of a pod."""

    async def prepare(self, pod: Pod) -> Mapping[str, MountedVolume]:
        """Return every volume that a container mounts, by name, ready to use.

        :raises VolumeError: naming the volumes that are not ready and why.
        """
        ...

    async def release(self, pod_uid: str) -> None:
        """Unmount and remove the volumes of a pod that has ended.

        :raises VolumeError: something is still in use; call again.
        """
        ...

    def pods_with_volumes(self) -> Sequence[str]:
        """Return the UIDs of pods that have volume directories on disk, wanted or not."""
        ...


@runtime_checkable
class ProgressReportingVolumeManager(Protocol):
    """A volume manager that also tells what it is at."""

    def pending(self, pod_uid: str) -> Mapping[str, float]:
        """Return the volumes that are being prepared now, each with the monotonic time at which that began."""
        ...
