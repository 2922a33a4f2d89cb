"""configMap, secret, downwardAPI and projected volumes: files that the agent writes and updates."""

from __future__ import annotations

import errno
import hashlib
import logging
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nodeagent.base import identity
from nodeagent.base.mounts.ownership import apply_fs_group
from nodeagent.contracts.volumes import MountedVolume, VolumeKind
from nodeagent.model.pod import Pod, Volume
from nodeagent_plugins.volumes.atomic_writer import Payload, write_payload
from nodeagent_plugins.volumes.mounts import Mounter, in_thread
from nodeagent_plugins.volumes.payload import DEFAULT_MODE, Collector, fs_group
from nodeagent_plugins.volumes.pod_certificates.manager import PodCertificates
from nodeagent_plugins.volumes.trees import open_to_all, remove_tree
from nodeagent_plugins.volumes.trust_bundles import TrustBundles

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

_log = logging.getLogger(__name__)


class _Written(NamedTuple):
    """The last successful setup of a volume."""

    digest: bytes
    collector: Collector


class _Content(ABC):
    """Collects the files of a volume if its sources have changed, and writes them if they differ from the last ones.

    :param tmpfs_option: additional mount option of volumes in memory.
    """

    directory_name: str
    in_memory = True
    """True if the files are written to a tmpfs, so that secrets are not stored on disk."""

    def __init__(self, context: CgroupsContext, mounter: Mounter, tmpfs_option: str = "") -> None:
        self.name = f"{identity.current().label_domain}~{self.directory_name}"
        self._context, self._mounter, self._tmpfs_option = context, mounter, tmpfs_option
        self._written: dict[Path, _Written] = {}

    @abstractmethod
    def supports(self, volume: Volume) -> bool: ...

    @abstractmethod
    async def collect(self, collector: Collector, volume: Volume) -> Payload: ...

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        collector = Collector(self._context, pod)
        payload = await self.collect(collector, volume)
        digest, before = _digest(payload), self._written.get(directory)
        if before is None or before.digest != digest:
            await in_thread(self._write, pod, directory, payload)
        self._written[directory] = _Written(digest, collector)
        return MountedVolume(volume.name, str(directory), readonly=True, selinux_relabel=True)

    async def needs_refresh(self, pod: Pod, volume: Volume, directory: Path) -> bool:
        written = self._written.get(directory)
        return written is None or written.collector.pod is not pod or await written.collector.outdated()

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        self._written.pop(directory, None)
        await in_thread(self._remove, directory)

    def _write(self, pod: Pod, directory: Path, payload: Payload) -> None:
        group = fs_group(pod)
        if directory not in self._written:
            self._make(directory, group)
        write_payload(directory, payload, group=group, now=self._context.clock.wall())

    def _make(self, directory: Path, group: int | None) -> None:
        directory.mkdir(mode=0o750, exist_ok=True)
        open_to_all(directory)
        if self.in_memory and not self._mounter.mounted(directory):
            try:
                self._mounter.mount("tmpfs", directory, self._tmpfs_option)
            except OSError as error:
                if error.errno != errno.EPERM:
                    raise
                # Without the permission to mount (tests, a node inside a container) running the pod is more important.
                _log.warning("Failed to mount tmpfs, storing volume content on disk", extra={"volume": str(directory)})
        if group is not None and not any(directory.iterdir()):
            apply_fs_group(directory, group)

    def _remove(self, directory: Path) -> None:
        try:
            if self._mounter.mounted(directory):
                self._mounter.unmount(directory)
            if not self._mounter.mounted(directory):
                remove_tree(directory)
                return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        # Something else is mounted in the volume. To look for that first would read the mount table for each volume.
        for path in self._mounter.below(directory):
            self._mounter.unmount(path)
        remove_tree(directory)


class ConfigMap(_Content):
    directory_name = "configmap"
    in_memory = False

    def supports(self, volume: Volume) -> bool:
        return volume.config_map is not None

    async def collect(self, collector: Collector, volume: Volume) -> Payload:
        assert volume.config_map is not None
        return await collector.config_map(volume.config_map, _mode(volume.config_map.default_mode))


class Secret(_Content):
    directory_name = "secret"

    def supports(self, volume: Volume) -> bool:
        return volume.secret is not None

    async def collect(self, collector: Collector, volume: Volume) -> Payload:
        assert volume.secret is not None
        return await collector.secret(volume.secret, _mode(volume.secret.default_mode))


class DownwardApi(_Content):
    directory_name = "downward-api"

    def supports(self, volume: Volume) -> bool:
        return volume.downward_api is not None

    async def collect(self, collector: Collector, volume: Volume) -> Payload:
        assert volume.downward_api is not None
        return collector.downward(volume.downward_api, _mode(volume.downward_api.default_mode))


class Projected(_Content):
    directory_name = "projected"

    def __init__(self, context: CgroupsContext, mounter: Mounter, tmpfs_option: str = "") -> None:
        super().__init__(context, mounter, tmpfs_option)
        self._bundles, self._certificates = TrustBundles(context), PodCertificates(context)

    def supports(self, volume: Volume) -> bool:
        return volume.projected is not None

    async def collect(self, collector: Collector, volume: Volume) -> Payload:
        assert volume.projected is not None
        mode = _mode(volume.projected.default_mode)
        return await collector.projected(volume.name, volume.projected, mode, self._bundles, self._certificates)

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        self._certificates.forget(pod_uid, directory.name)
        await super().teardown(pod_uid, directory)


def content_kinds(context: CgroupsContext, mounter: Mounter, tmpfs_option: str = "") -> list[VolumeKind]:
    """Return all volume kinds of this module."""
    return [kind(context, mounter, tmpfs_option) for kind in (ConfigMap, Secret, DownwardApi, Projected)]


def _mode(default: int | None) -> int:
    return DEFAULT_MODE if default is None else default


def _digest(payload: Payload) -> bytes:
    """Return a digest of paths, modes, owners and content."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(payload):
        file = payload[path]
        digest.update(f"{path}\0{file.mode}\0{file.user}\0{len(file.data)}\0".encode())
        digest.update(file.data)
    return digest.digest()
