"""Start of the volume manager: volumes of an earlier process, and the conditions for unmounting any volume."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent.base.aio import Backoff
from nodeagent.contracts.api import NODES
from nodeagent.contracts.persistent_volumes import (
    DeviceOnDisk,
    DeviceVolumeKind,
    PersistentVolumeKind,
    VolumeOnDisk,
)
from nodeagent.errors import ApiError, VolumeError
from nodeagent_plugins.volumes.actual_state import DeviceState, MountState, NodeVolume, PodMount
from nodeagent_plugins.volumes.features import features_of
from nodeagent_plugins.volumes.kinds import AdaptedKind, Kinds, pod_volume_name
from nodeagent_plugins.volumes.metrics import (
    FORCE_CLEANED,
    FORCE_CLEANED_ERRORS,
    RECONSTRUCTED,
    RECONSTRUCTION_ERRORS,
    plugin_name,
)
from nodeagent_plugins.volumes.mount_operations import attached_path
from nodeagent_plugins.volumes.mounts import in_thread
from nodeagent_plugins.volumes.reconciler import Reconciler
from nodeagent_plugins.volumes.reconstruction import FoundVolumes, find_pod_volumes, find_volumes

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

CHECK_SECONDS = 60.0
"""Interval of a check of all volumes, in addition to events."""
SOURCES_SECONDS = 1.0
_log = logging.getLogger(__name__)


class Startup:
    """Finds the volumes of an earlier process and determines when volumes may be unmounted.

    Volumes are unmounted only after all pod sources are ready, and after the node status has shown which of the found
    volumes are attached.
    """

    def __init__(self, context: CgroupsContext, kinds: Kinds, reconciler: Reconciler) -> None:
        self._context, self._kinds, self._reconciler = context, kinds, reconciler
        self._search: asyncio.Task[None] | None = None
        self._unidentified: list[str] = []
        self._synced = False
        self.done = False
        """True after the disk was searched."""
        self.failed: dict[Path, str] = {}
        """Directories that cannot be identified, with the reason; empty for an unknown kind."""

    @property
    def may_unmount(self) -> bool:
        """True if volumes may be unmounted."""
        return self._synced and self._context.pods.all_sources_ready

    @property
    def waiting_for(self) -> str:
        """The reason why volumes may not be unmounted."""
        if not self._synced:
            return "waiting for the node status, which lists the attached volumes"
        return "waiting for all pod sources"

    async def run(self) -> None:
        """Search the disk, then check all volumes when the conditions are met and periodically, until cancelled."""
        await self.find()
        self._context.on_node_change(self._node_changed)
        if not self._synced:
            await self._sync()
        while not self.may_unmount:
            await self._context.clock.sleep(SOURCES_SECONDS)
        attachments_found = not self._reconciler.by_node
        while True:
            if not attachments_found:
                attachments_found = await self._find_attachments()
            self._reconciler.step_all()
            await self._context.clock.sleep(CHECK_SECONDS)

    async def find(self) -> None:
        """Search the disk for volumes, once.

        :raises VolumeError: the directory of the pods cannot be read; call again.
        """
        if self._search is None or (self._search.done() and not self.done):
            self._search = self._context.tasks.start(self._find(), "find volumes")
        try:
            await asyncio.shield(self._search)
        except OSError as error:
            raise VolumeError(f"failed to find the volumes of an earlier process: {error}") from error

    async def adopt(self, pod_dir: Path) -> None:
        """Add volumes in the directory of a pod that are not in the actual state yet."""
        found = FoundVolumes()
        await in_thread(find_pod_volumes, pod_dir, self._kinds, found)
        self._add_all(found)

    def forget_failures(self, pod_dir: Path) -> Mapping[Path, str]:
        """Return why directories of a pod cannot be identified, and drop those that no longer exist."""
        own = {path: text for path, text in self.failed.items() if path.is_relative_to(pod_dir)}
        for path in own:
            FORCE_CLEANED.inc()
            if path.exists():
                FORCE_CLEANED_ERRORS.inc()
            else:
                del self.failed[path]
        return own

    def volumes_in_use(self) -> Sequence[str] | None:
        """Return the names for the node status; ``None`` keeps the list on the server."""
        if not self._synced:
            return None
        names = {name for name, volume in self._reconciler.volumes.items() if volume.attachable}
        # A volume that cannot be identified may still be mounted: the controller must not detach it.
        return sorted(names.union(self._unidentified if any(self.failed.values()) else ()))

    async def _find(self) -> None:
        found = await in_thread(find_volumes, self._context.root_dir / "pods", self._kinds)
        self._add_all(found)
        for path, text in found.failed.items():
            if text:
                _log.error("Failed to reconstruct volume", extra={"path": str(path), "err": text})
        if self._context.api is None:
            self._identify({})
        elif not self._unsynced() and not any(self.failed.values()):
            self._synced = True
        self.done = True

    def _unsynced(self) -> list[NodeVolume]:
        return [volume for volume in self._reconciler.volumes.values() if volume.attachable is None]

    async def _sync(self) -> None:
        """Read the node until it is available, and mark the found volumes that are attached."""
        api, backoff = self._context.api, Backoff(0.5, 10.0)
        assert api is not None
        while True:
            try:
                node = await api.get(NODES, self._context.node_name, into=dict)
            except ApiError as error:
                _log.log(logging.DEBUG, "Failed to read node for attached volumes", extra={"err": str(error)})
                await self._context.clock.sleep(backoff.next())
                continue
            self._identify(node.get("status") or {})
            self._context.trigger_node_status()
            return

    async def _find_attachments(self) -> bool:
        """Add the volumes whose attachment an earlier process has requested; return whether they are known."""
        for kind in self._kinds.persistent:
            attached = features_of(kind).node_attached
            try:
                names = await attached.attachments() if attached is not None else ()
            except VolumeError as error:
                _log.warning("Failed to find attached volumes", extra={"kind": kind.name, "err": str(error)})
                return False
            for name in names:
                self._record(name, kind, name).attachable = True
        return True

    def _identify(self, status: Mapping[str, Any]) -> None:
        in_use = [str(name) for name in status.get("volumesInUse") or ()]
        for volume in self._unsynced():
            path = attached_path(status, volume.unique_name)
            volume.attached, volume.device_path = path is not None, path or ""
            # A volume that was reported in use stays reported until it is unstaged, even if it was detached by force.
            volume.attachable = path is not None or volume.unique_name in in_use
        self._unidentified = in_use
        self._synced = True

    def _node_changed(self) -> None:
        for volume in list(self._reconciler.volumes.values()):
            if volume.attachable and not volume.attached:
                self._reconciler.step(volume)

    def _add_all(self, found: FoundVolumes) -> None:
        for kind, volume in found.volumes:
            mounts = (known.mounts.get(volume.pod_uid) for known in self._reconciler.volumes.of_pod(volume.pod_uid))
            if not any(mount is not None and mount.volume.directory == volume.directory for mount in mounts):
                self._add(kind, volume)
            self.failed.pop(volume.directory, None)
        for device_kind, device in found.devices:
            self._add_device(device_kind, device)
        for path, text in found.failed.items():
            if path not in self.failed and text:
                RECONSTRUCTED.inc()
                RECONSTRUCTION_ERRORS.inc()
            self.failed[path] = text

    def _add(self, kind: PersistentVolumeKind, volume: VolumeOnDisk) -> None:
        RECONSTRUCTED.inc()
        name = volume.unique_name or pod_volume_name(kind, volume.pod_uid, volume.name)
        record = self._record(name, kind, volume.unique_name)
        record.selinux_label = record.selinux_label or volume.selinux_label
        record.mounts[volume.pod_uid] = PodMount(volume, MountState.UNCERTAIN, spec=volume.spec, reconstructed=True)
        self._reconciler.volumes.assign(record, volume.pod_uid)
        if volume.spec is not None and not isinstance(kind, AdaptedKind):
            record.plugin = kind.plugin_name(volume.spec)

    def _add_device(self, kind: DeviceVolumeKind, device: DeviceOnDisk) -> None:
        record = self._record(device.unique_name, kind, device.unique_name)
        record.device, record.device_state, record.device_reconstructed = device, DeviceState.UNCERTAIN, True
        record.selinux_label = record.selinux_label or device.selinux_label

    def _record(self, name: str, kind: PersistentVolumeKind, shared_name: str) -> NodeVolume:
        record = self._reconciler.volumes.get(name)
        if record is None:
            paced = isinstance(kind, AdaptedKind)
            record = self._reconciler.volumes[name] = NodeVolume(name, kind, plugin_name(kind.name), paced)
            if shared_name and not paced and features_of(kind).attachable is not None and not self._synced:
                record.attachable = None
        return record
