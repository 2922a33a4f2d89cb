"""Volume manager: keeps the volumes of pods mounted while the pods need them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base.mounts.points import remove_empty_directory
from nodeagent.contracts.events import EventType
from nodeagent.contracts.persistent_volumes import (
    ClaimResolver,
    PersistentVolumeKind,
    VolumeFigures,
    VolumeState,
)
from nodeagent.contracts.pods import KillReason
from nodeagent.contracts.volumes import MountedVolume, VolumeKind
from nodeagent.errors import VolumeError, VolumesNotReady
from nodeagent.model.pod import Pod
from nodeagent_plugins.volumes.actual_state import NodeVolume
from nodeagent_plugins.volumes.kinds import AdaptedKind, Kinds
from nodeagent_plugins.volumes.metrics import VOLUMES
from nodeagent_plugins.volumes.mounts import Mounter, in_thread
from nodeagent_plugins.volumes.operations import error_text
from nodeagent_plugins.volumes.population import PodVolumes, Populator
from nodeagent_plugins.volumes.reconciler import Reconciler
from nodeagent_plugins.volumes.reconstruction import volume_directories
from nodeagent_plugins.volumes.startup import Startup
from nodeagent_plugins.volumes.states import pending_volumes, volume_states
from nodeagent_plugins.volumes.trees import make_directories

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

_log = logging.getLogger(__name__)

_LIMIT_EXCEEDED = "VolumeAttachmentLimitExceeded"
WAIT_SECONDS = 123.0
"""Longest wait of a pod sync for its volumes; operations continue after it."""


class Manager:
    """Implements :class:`~nodeagent.contracts.volumes.VolumeManager` and its extensions.

    Operations run in dedicated tasks. A pod sync requests them and waits; if it is cancelled or times out, they
    continue, and the next sync waits for the same operations.
    """

    def __init__(
        self,
        context: CgroupsContext,
        kinds: Sequence[VolumeKind],
        mounter: Mounter,
        persistent_kinds: Sequence[PersistentVolumeKind] = (),
        claims: ClaimResolver | None = None,
    ) -> None:
        self._context, self._mounter = context, mounter
        self._kinds = Kinds(kinds, persistent_kinds)
        self._reconciler = Reconciler(context, lambda: self._startup.may_unmount)
        self._populator = Populator(context, self._kinds, claims, self._reconciler.volumes)
        self._startup = Startup(context, self._kinds, self._reconciler)
        self._parents: dict[str, set[Path]] = {}
        VOLUMES.sample = self._count

    async def run(self) -> None:
        """Find the volumes of an earlier process, then check all volumes periodically until cancelled."""
        await self._startup.run()

    def replace_kinds(self, removed: Sequence[VolumeKind], added: Sequence[VolumeKind]) -> None:
        """Replace kinds without unmounting volumes.

        :raises VolumeError: volumes of a removed kind are in use, or are not known yet.
        """
        if removed and not self._startup.done:
            raise VolumeError("the volumes on this node have not been found yet, try again")
        self._kinds.replace(removed, added, self._users)

    def _users(self, kind: AdaptedKind) -> Sequence[str]:
        """Return the pods with volumes of *kind*, mounted or desired."""
        mounted = {
            uid
            for volume in self._reconciler.volumes.values()
            if volume.kind is kind
            for uid in (*volume.mounts, *volume.desired)
        }
        desired = {pod.uid for pod in self._context.pods.active() if any(map(kind.handles, pod.spec.volumes or ()))}
        names = {pod.uid: pod.full_name for pod in self._context.pods.all()}
        return sorted(names.get(uid, uid) for uid in mounted | desired)

    async def prepare(self, pod: Pod) -> Mapping[str, MountedVolume]:
        """Return the volumes that containers use, by name; others are not mounted.

        :raises VolumeError: volumes are not ready; the text names them with the reasons.
        """
        if not pod.spec.volumes:
            return {}
        if not self._startup.done:
            await self._startup.find()
        pod_volumes = await self._populator.process(pod)
        await self._make_parents(pod_volumes)
        for volume in pod_volumes.volumes.values():
            if await self._is_current(volume, pod.uid):
                volume.desired[pod.uid].requested = False
            self._reconciler.step(volume)
        cause, kind = "", VolumeError
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not (cause := self._failure(pod_volumes)) and not self._complete(pod_volumes):
                    await self._reconciler.changed(pod.uid)
        except TimeoutError:
            cause, kind = "context deadline exceeded", VolumesNotReady
        if cause:
            if await self._limit_exceeded(pod_volumes):
                self._reject(pod_volumes, cause)
                kind = VolumesNotReady
            raise self._not_ready(pod_volumes, cause, kind)
        return {name: _named(volume, pod.uid, name) for name, volume in pod_volumes.volumes.items()}

    async def release(self, pod_uid: str) -> None:
        """Unmount and remove the volumes of a terminated pod, including those from before a restart.

        Volumes without a volume plugin are not changed.

        :raises VolumeError: a volume is still in use; it is unmounted in the background, call again.
        """
        if not self._startup.done:
            await self._startup.find()
        pod_dir = self._context.pod_dir(pod_uid)
        used = self._reconciler.volumes.of_pod(pod_uid)
        self._populator.remove(pod_uid)
        try:
            await in_thread(self._release_subpaths, pod_dir / "volume-subpaths")
            await self._startup.adopt(pod_dir)
        except OSError as error:
            raise VolumeError(f"error cleaning subPath mounts: {error_text(error)}") from error
        for volume in self._volumes_of(pod_uid):
            volume.mounts[pod_uid].released = True
            if volume.paced:
                self._reconciler.unmount(volume, pod_uid)
            else:
                self._reconciler.step(volume)
        problem = ""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while self._volumes_of(pod_uid) and not (problem := self._stuck(pod_uid)):
                    await self._reconciler.changed(pod_uid)
        except TimeoutError:
            problem = "context deadline exceeded"
        if remaining := self._volumes_of(pod_uid):
            names = sorted(name for volume in remaining for name in _names(volume, pod_uid))
            raise VolumeError(f"mounted volumes=[{' '.join(names)}]: {problem}")
        await self._remove_directories(pod_uid, pod_dir)
        self._parents.pop(pod_uid, None)
        for volume in used:
            self._reconciler.step(volume)  # A volume that no pod uses any longer is unstaged.

    def pods_with_volumes(self) -> Sequence[str]:
        """Return the UIDs of all pods with volume directories on disk; only those of unknown pods are read."""
        pods = self._context.root_dir / "pods"
        mounted = {uid for volume in self._reconciler.volumes.values() for uid in volume.mounts}
        try:
            return [each.name for each in sorted(pods.iterdir()) if each.name in mounted or volume_directories(each)]
        except FileNotFoundError:
            return []

    def pending(self, pod_uid: str) -> Mapping[str, float]:
        """Return the volumes that are being mounted, with their start times."""
        return pending_volumes(self._populator.of(pod_uid), self._reconciler.queue)

    def states(self, pod_uid: str = "") -> Sequence[VolumeState]:
        """Return the volumes of a pod, or of all pods, sorted by pod and name."""
        return volume_states(self._reconciler, self._startup, self._populator, pod_uid)

    async def measure(self, pod_uid: str, volume: str) -> VolumeFigures | None:
        """Return the figures of a mounted volume whose kind measures it.

        :raises VolumeError: the driver cannot be called.
        """
        pod_volumes = self._populator.of(pod_uid)
        record = pod_volumes.volumes.get(volume) if pod_volumes is not None else None
        kind = record.features.measured if record is not None and record.is_ready(pod_uid) else None
        if record is None or kind is None:
            return None
        return await kind.measure(record.mounts[pod_uid].volume, record.desired[pod_uid].spec)

    def volumes_in_use(self) -> Sequence[str] | None:
        """Return the attachable volumes of this node; ``None`` until those of an earlier process are identified."""
        return self._startup.volumes_in_use()

    # --- waits of a pod sync --------------------------------------------------------------------------------

    def _failure(self, pod_volumes: PodVolumes) -> str:
        """Return the reasons for which the sync fails now, after the attempts of adapted kinds have ended."""
        uid, causes = pod_volumes.pod.uid, []
        for name, volume in pod_volumes.volumes.items():
            if not volume.paced:
                continue
            if self._in_progress(volume, uid):
                return ""
            failure = self._reconciler.queue.failure(volume.unique_name, uid)
            if failure is not None and not volume.is_ready(uid):
                causes.append(f"{name}: {failure.text}")
        problems = [
            text
            for name, text in pod_volumes.problems.items()
            if name not in pod_volumes.volumes or not pod_volumes.volumes[name].is_ready(uid)
        ]
        return "; ".join([*problems, *causes])

    def _complete(self, pod_volumes: PodVolumes) -> bool:
        """Return whether all volumes are mounted, and the content of adapted kinds is up to date."""
        uid = pod_volumes.pod.uid
        return all(
            v.is_ready(uid) and not (v.paced and self._in_progress(v, uid)) for v in pod_volumes.volumes.values()
        )

    def _in_progress(self, volume: NodeVolume, uid: str) -> bool:
        desired = volume.desired.get(uid)
        return (desired is not None and desired.requested) or bool(self._reconciler.queue.running(volume.unique_name))

    async def _is_current(self, volume: NodeVolume, uid: str) -> bool:
        """Return whether a volume of an adapted kind is mounted and its setup would change nothing."""
        kind, desired = volume.kind, volume.desired.get(uid)
        if not isinstance(kind, AdaptedKind) or desired is None or not volume.is_ready(uid):
            return False
        if self._reconciler.queue.failure(volume.unique_name, uid) is not None:
            return False
        return not await kind.needs_refresh(desired.pod, desired.spec.volume, desired.directory)

    async def _limit_exceeded(self, pod_volumes: PodVolumes) -> bool:
        """Return whether a volume is not attached because the node has reached the limit of its driver."""
        uid = pod_volumes.pod.uid
        for name in _unattached(pod_volumes):
            volume = pod_volumes.volumes[name]
            limited, desired = volume.features.limited, volume.desired.get(uid)
            if limited is not None and desired is not None and await limited.limit_exceeded(desired.spec):
                return True
        return False

    def _reject(self, pod_volumes: PodVolumes, cause: str) -> None:
        """Fail the pod, so that its controller creates a replacement, which is scheduled to another node."""
        pod, text = pod_volumes.pod, _description(pod_volumes, cause)
        message = f"Node has reached its volume attachment limit, rejecting pod. {text}"
        self._context.recorder.record(pod.reference(), EventType.WARNING, _LIMIT_EXCEEDED, message)
        self._context.pods.kill(pod.uid, KillReason.REJECTED, message, status_reason=_LIMIT_EXCEEDED)

    def _not_ready(self, pod_volumes: PodVolumes, cause: str, kind: type[VolumeError]) -> VolumeError:
        text, uid = _description(pod_volumes, cause), pod_volumes.pod.uid
        fields = {"pod": pod_volumes.pod.full_name, "podUID": uid, "err": text}
        _log.error("Unable to attach or mount volumes for pod; skipping pod", extra=fields)
        return kind(f"Unable to attach or mount volumes: {text}")

    def _volumes_of(self, pod_uid: str) -> list[NodeVolume]:
        return [volume for volume in self._reconciler.volumes.of_pod(pod_uid) if pod_uid in volume.mounts]

    def _stuck(self, pod_uid: str) -> str:
        """Return why no volume of the pod is being unmounted now; empty while one is."""
        reasons = []
        for volume in self._volumes_of(pod_uid):
            if self._reconciler.queue.running(volume.unique_name):
                return ""
            failure = self._reconciler.queue.failure(volume.unique_name, pod_uid)
            names = " ".join(_names(volume, pod_uid))
            if failure is not None:
                reasons.append(f"{names}: {failure.text}")
            elif not self._startup.may_unmount:
                reasons.append(f"{names}: {self._startup.waiting_for}")
            else:
                return ""
        return "; ".join(reasons)

    # --- directories ----------------------------------------------------------------------------------------

    async def _make_parents(self, pod_volumes: PodVolumes) -> None:
        """Create the parent directories of the volumes, once per pod."""
        uid = pod_volumes.pod.uid
        missing_volumes = (volume for volume in pod_volumes.volumes.values() if not volume.is_ready(uid))
        needed = {desired.directory.parent for v in missing_volumes if (desired := v.desired.get(uid)) is not None}
        if missing := needed - self._parents.get(uid, set()):
            try:
                await in_thread(_make_all, missing)
            except OSError as error:
                raise VolumeError(f"failed to create volume directories of pod {uid}: {error_text(error)}") from error
            self._parents.setdefault(uid, set()).update(missing)
        for volume in pod_volumes.volumes.values():
            if (desired := volume.desired.get(uid)) is not None:
                desired.has_parent = True

    def _release_subpaths(self, directory: Path) -> None:
        """Unmount sub-paths and remove their empty directories. Blocking.

        :raises OSError: a sub-path is in use.
        """
        if not os.path.lexists(directory):
            return
        for path in self._mounter.below(directory):
            self._mounter.unmount(path)
        if directory.is_dir():
            for path in sorted(directory.rglob("*"), reverse=True):
                if path.is_file() and not path.is_symlink() and path.stat().st_size == 0:
                    path.unlink(missing_ok=True)
                remove_empty_directory(path)
            remove_empty_directory(directory)

    async def _remove_directories(self, pod_uid: str, pod_dir: Path) -> None:
        """Remove empty directories of volumes.

        :raises VolumeError: a file system is mounted in a directory without a volume plugin.
        """
        try:
            kept, mounted = await in_thread(_remove_empty, pod_dir, self._mounter)
        except OSError as error:
            raise VolumeError(f"failed to release the volumes of pod {pod_uid}: {error_text(error)}") from error
        reasons = self._startup.forget_failures(pod_dir)
        if mounted:
            details = "; ".join(f"{path}: {reasons.get(path) or 'no volume plugin supports it'}" for path in mounted)
            raise VolumeError(f"failed to release the volumes of pod {pod_uid}: still mounted: {details}")
        if kept:
            paths = [str(path) for path in kept]
            _log.warning("Orphaned volumes found, but no volume plugin supports them", extra={"paths": paths})

    def _count(self) -> Mapping[tuple[str, ...], int]:
        """Return the numbers of desired and of actual volumes by plugin."""
        counts: Counter[tuple[str, ...]] = Counter()
        for volume in self._reconciler.volumes.values():
            counts[volume.plugin, "desired_state_of_world"] += len(volume.desired)
            counts[volume.plugin, "actual_state_of_world"] += sum(map(volume.is_ready, volume.mounts))
        return {labels: count for labels, count in counts.items() if count}


def _unattached(pod_volumes: PodVolumes) -> list[str]:
    """Return the names of the pod's volumes that wait for their attachment, sorted."""
    uid = pod_volumes.pod.uid
    waiting = (name for name, v in pod_volumes.volumes.items() if not v.is_ready(uid) and v.attachable)
    return sorted(name for name in waiting if not pod_volumes.volumes[name].attached)


def _description(pod_volumes: PodVolumes, cause: str) -> str:
    """Return the volumes that are not ready, with the cause."""
    uid = pod_volumes.pod.uid
    unmounted = {name for name, volume in pod_volumes.volumes.items() if not volume.is_ready(uid)}
    failed = pod_volumes.problems.keys() - pod_volumes.volumes.keys()
    return (
        f"unmounted volumes=[{' '.join(sorted(unmounted | failed))}], "
        f"unattached volumes=[{' '.join(_unattached(pod_volumes))}], "
        f"failed to process volumes=[{' '.join(sorted(failed))}]: {cause}"
    )


def _named(volume: NodeVolume, pod_uid: str, name: str) -> MountedVolume:
    mounted = volume.mounts[pod_uid].mounted
    assert mounted is not None
    return mounted if mounted.name == name else replace(mounted, name=name)


def _names(volume: NodeVolume, pod_uid: str) -> list[str]:
    mount = volume.mounts[pod_uid]
    return mount.names or [mount.volume.name]


def _make_all(directories: set[Path]) -> None:
    for directory in directories:
        make_directories(directory)


def _remove_empty(pod_dir: Path, mounter: Mounter) -> tuple[list[Path], list[Path]]:
    """Remove empty volume directories; return those that remain, and those with mounts. Blocking."""
    kept, mounted = [], []
    for path, _ in volume_directories(pod_dir):
        if mounter.below(path):
            mounted.append(path)
        elif not remove_empty_directory(path):
            kept.append(path)
    for base in (pod_dir / "volumes", pod_dir / "volumeDevices"):
        if base.is_dir():
            for parent in base.iterdir():
                remove_empty_directory(parent)
            remove_empty_directory(base)
    return kept, mounted
