"""emptyDir volumes: storage on disk, in memory or in huge pages for the lifetime of the pod."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base import identity
from nodeagent.base.mounts.ownership import apply_fs_group
from nodeagent.base.quantity import Quantity
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import VolumeError
from nodeagent.model.pod import EmptyDirVolume, Pod, Volume
from nodeagent_plugins.volumes.mounts import Mounter, in_thread
from nodeagent_plugins.volumes.payload import fs_group
from nodeagent_plugins.volumes.quotas import VolumeProjects
from nodeagent_plugins.volumes.trees import (
    make_directories,
    open_to_all,
    remove_if_empty,
    remove_tree,
)

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

_HUGE = "hugepages-"


class EmptyDir:
    """Sets up the directory once; a marker file prevents another setup after a restart of the agent.

    :param tmpfs_option: additional mount option of volumes in memory.
    """

    def __init__(self, context: CgroupsContext, mounter: Mounter, tmpfs_option: str = "") -> None:
        self.name = f"{identity.current().label_domain}~empty-dir"
        self._context, self._mounter, self._tmpfs_option = context, mounter, tmpfs_option
        self._projects = VolumeProjects(context)
        self._ready: set[Path] = set()

    def supports(self, volume: Volume) -> bool:
        return volume.empty_dir is not None

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        assert volume.empty_dir is not None
        if directory not in self._ready:
            kind, options = self._file_system(pod, volume.empty_dir)
            await in_thread(self._make, pod, directory, kind, options)
            self._ready.add(directory)
        return MountedVolume(volume.name, str(directory), selinux_relabel=True)

    async def needs_refresh(self, pod: Pod, volume: Volume, directory: Path) -> bool:
        return directory not in self._ready

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        self._ready.discard(directory)
        await in_thread(self._remove, pod_uid, directory)

    def _make(self, pod: Pod, directory: Path, kind: str, options: str) -> None:
        marker = self._marker(pod.uid, directory.name)
        mount = bool(kind) and not self._mounter.mounted(directory)
        if marker.exists() and directory.exists() and not mount:
            return
        directory.mkdir(mode=0o750, exist_ok=True)
        open_to_all(directory)
        if mount:
            self._mounter.mount(kind, directory, options)
        elif not kind:
            self._projects.assign(pod, directory)
        # A mounted file system retains the mode of its root: 1777 for tmpfs, 0755 for hugetlbfs.
        if (group := fs_group(pod)) is not None:
            apply_fs_group(directory, group)
        make_directories(marker.parent)
        marker.touch()

    def _remove(self, pod_uid: str, directory: Path) -> None:
        for path in self._mounter.below(directory):
            self._mounter.unmount(path)
        remove_tree(directory)
        marker = self._marker(pod_uid, directory.name)
        marker.unlink(missing_ok=True)
        remove_if_empty(*list(marker.parents)[:3])

    def _marker(self, pod_uid: str, name: str) -> Path:
        return self._context.pod_dir(pod_uid) / "plugins" / self.name / name / "ready"

    def _file_system(self, pod: Pod, source: EmptyDirVolume) -> tuple[str, str]:
        """Return the file system type and mount options; two empty strings for a directory on disk.

        :raises VolumeError: the medium is unknown or does not match the pod's huge pages.
        """
        if not source.medium:
            return "", ""
        if source.medium == "Memory":
            sized = self._context.gates.enabled("SizeMemoryBackedVolumes")
            size = f"size={self._memory_bytes(pod, source)}" if sized else ""
            return "tmpfs", ",".join(filter(None, (size, self._tmpfs_option)))
        if source.medium.startswith("HugePages"):
            return "hugetlbfs", f"pagesize={page_size(pod, source.medium).value()}"
        raise VolumeError(f"unknown storage medium {source.medium!r}")

    def _memory_bytes(self, pod: Pod, source: EmptyDirVolume) -> int:
        """Return the smallest of the node's memory, the pod's limit and the volume's size limit; zeros are ignored."""
        node = self._context.node() or {}
        allocatable = node.get("status", {}).get("allocatable", {}).get("memory")
        limits = [
            Quantity.parse(str(allocatable)).value() if allocatable else _node_memory(),
            self._context.cgroups.pod_resources(pod).memory_limit_bytes,
            Quantity.parse(str(source.size_limit)).value() if source.size_limit is not None else 0,
        ]
        return min(limit for limit in limits if limit > 0)


def page_size(pod: Pod, medium: str) -> Quantity:
    """Return the page size of a medium ``HugePages`` or ``HugePages-2Mi`` that the pod's containers request.

    :raises VolumeError: no container requests the size, or ``HugePages`` is ambiguous.
    """
    requested = {
        Quantity.parse(name.removeprefix(_HUGE))
        for _, container in pod.containers()
        for amounts in (container.resources.requests, container.resources.limits)
        for name in amounts or ()
        if name.startswith(_HUGE)
    }
    _, dash, text = medium.partition("-")
    if dash:
        try:
            desired = Quantity.parse(text)
        except ValueError as error:
            raise VolumeError(f"medium {medium!r}: page size {error}") from error
        if desired in requested:
            return desired
        raise VolumeError(f"medium {medium!r}: no container of the pod requests huge pages of that size")
    if len(requested) != 1:
        raise VolumeError(
            f"medium {medium!r}: the pod's containers request {len(requested)} sizes of huge pages, not 1"
        )
    return requested.pop()


def _node_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
