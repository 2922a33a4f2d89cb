"""Volume manager: sets up and tears down the volumes of a pod."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nodeagent.contracts.events import EventType
from nodeagent.contracts.volumes import DriverVolumeKind, MountedVolume, VolumeKind
from nodeagent.errors import NodeAgentError, VolumeError
from nodeagent.model.pod import Pod, Volume
from nodeagent_plugins.volumes.metrics import MOUNT, UNMOUNT, VOLUMES, observe, plugin_name
from nodeagent_plugins.volumes.mounts import Mounter, in_thread
from nodeagent_plugins.volumes.trees import make_directories, remove_if_empty, remove_tree

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

_log = logging.getLogger(__name__)

SETUP_SECONDS = 123.0
"""Timeout for the setup of one volume; the kubelet's sync waits as long for all volumes of a pod."""
_FIELDS = {field.name: field.encode_name for field in msgspec.structs.fields(Volume)}


class Manager:
    """Implements :class:`~nodeagent.contracts.volumes.VolumeManager`.

    A volume whose setup failed is reported by the event ``FailedMount``.
    """

    def __init__(self, context: CgroupsContext, kinds: Sequence[VolumeKind], mounter: Mounter) -> None:
        self._context, self._kinds, self._mounter = context, kinds, mounter
        self._of_drivers = [kind for kind in kinds if isinstance(kind, DriverVolumeKind)]
        self._parents: dict[str, set[Path]] = {}
        self._pending: dict[str, dict[str, float]] = {}
        self._ready: dict[str, dict[str, str]] = {}
        VOLUMES.sample = self._count

    async def prepare(self, pod: Pod) -> Mapping[str, MountedVolume]:
        """Return the volumes that containers mount, by name; other volumes are not set up.

        :raises VolumeError: volumes are not ready; the text names them with the reasons.
        """
        if not pod.spec.volumes:
            return {}
        used = _mounted_names(pod)
        # The runtime mounts images on its own.
        volumes = [volume for volume in pod.spec.volumes if volume.name in used and volume.image is None]
        results = await self._set_up_all(pod, volumes)
        problems = {name: result for name, result in results.items() if isinstance(result, str)}
        for name, problem in problems.items():
            note = f'MountVolume.SetUp failed for volume "{name}" : {problem}'
            self._context.recorder.record(pod.reference(), EventType.WARNING, "FailedMount", note)
        if problems:
            details = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
            fields = {"pod": pod.full_name, "podUID": pod.uid, "err": details}
            _log.error("Unable to attach or mount volumes for pod; skipping pod", extra=fields)
            raise VolumeError(f"Unable to attach or mount volumes: unmounted volumes=[{' '.join(problems)}]: {details}")
        return {name: result for name, result in results.items() if isinstance(result, MountedVolume)}

    async def release(self, pod_uid: str) -> None:
        """Unmount and remove the volumes of a terminated pod, including those from before a restart.

        Files of volumes without a volume plugin are not removed.

        :raises VolumeError: a volume is still in use; call again.
        """
        pod_dir, problems = self._context.pod_dir(pod_uid), []
        try:
            await in_thread(self._unmount_below, pod_dir / "volume-subpaths")
            for directory in await in_thread(_volume_directories, pod_dir / "volumes"):
                if problem := await self._tear_down(pod_uid, directory):
                    problems.append(problem)
            if not problems:
                await in_thread(self._remove_leftovers, pod_dir)
        except OSError as error:
            problems.append(_text(error))
        if problems:
            raise VolumeError(f"failed to release the volumes of pod {pod_uid}: {'; '.join(problems)}")
        self._parents.pop(pod_uid, None)
        self._ready.pop(pod_uid, None)

    def pods_with_volumes(self) -> Sequence[str]:
        """Return the UIDs of all pods with volume directories on disk."""
        pods = self._context.root_dir / "pods"
        try:
            with os.scandir(pods) as entries:
                uids = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        return [uid for uid in uids if _volume_directories(pods / uid / "volumes")]

    def pending(self, pod_uid: str) -> Mapping[str, float]:
        """Return the volumes that are being set up, with their start times."""
        return self._pending.get(pod_uid, {})

    async def _set_up_all(self, pod: Pod, volumes: Sequence[Volume]) -> dict[str, MountedVolume | str]:
        kinds = {volume.name: self._kind(volume) for volume in volumes}
        names = {self._directory_name(kind, v) for v in volumes if (kind := kinds[v.name]) is not None}
        await self._make_parents(pod.uid, names)
        steps = [self._set_up(pod, volume, kinds[volume.name]) for volume in volumes]
        if len(steps) == 1:
            return {volumes[0].name: await steps[0]}
        results = await asyncio.gather(*steps, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return {v.name: r for v, r in zip(volumes, results, strict=True) if not isinstance(r, BaseException)}

    async def _set_up(self, pod: Pod, volume: Volume, kind: VolumeKind | None) -> MountedVolume | str:
        """Return the volume, or the reason why it is not ready."""
        if kind is None:
            return f"volumes of type {source_of(volume)} are not supported on this node"
        directory = self._context.pod_dir(pod.uid) / "volumes" / self._directory_name(kind, volume) / volume.name
        pending = self._pending.setdefault(pod.uid, {})
        pending[volume.name] = started = self._context.clock.now()
        failed = True
        try:
            async with asyncio.timeout(SETUP_SECONDS):
                mounted = await kind.setup(pod, volume, directory)
            if not isinstance(mounted, MountedVolume):
                raise TypeError(f"setup returned {mounted!r:.80}, not a MountedVolume")
            failed = False
            self._ready.setdefault(pod.uid, {})[volume.name] = kind.name
            return mounted
        except TimeoutError:
            return f"not ready after {SETUP_SECONDS:.0f} s"
        except (NodeAgentError, OSError) as error:
            return _text(error)
        except Exception as error:  # A bug in a third-party plugin: the pod waits and reports the plugin.
            _log.exception("Volume plugin failed", extra={"kind": kind.name, "volume": volume.name, "err": str(error)})
            return f"volume plugin {kind.name} failed: {error!r}"
        finally:
            observe(kind.name, MOUNT, failed, self._context.clock.now() - started)
            del pending[volume.name]
            if not pending:
                self._pending.pop(pod.uid, None)

    def _kind(self, volume: Volume) -> VolumeKind | None:
        return next((kind for kind in self._kinds if kind.supports(volume)), None)

    def _directory_name(self, kind: VolumeKind, volume: Volume) -> str:
        """Return the name of the directory that contains the volume's directory."""
        return kind.directory_name(volume) if kind in self._of_drivers else kind.name

    def _owner(self, directory: Path) -> VolumeKind | None:
        named = next((kind for kind in self._kinds if kind.name == directory.parent.name), None)
        return named or next((kind for kind in self._of_drivers if kind.owns(directory)), None)

    async def _make_parents(self, pod_uid: str, names: set[str]) -> None:
        """Create the parent directories of the volumes, once per pod."""
        volumes = self._context.pod_dir(pod_uid) / "volumes"
        desired = {volumes / name for name in names}
        if missing := desired - self._parents.get(pod_uid, set()):
            try:
                await in_thread(_make_all, missing)
            except OSError as error:
                raise VolumeError(f"failed to create volume directories of pod {pod_uid}: {_text(error)}") from error
            self._parents.setdefault(pod_uid, set()).update(missing)

    async def _tear_down(self, pod_uid: str, directory: Path) -> str:
        """Tear down a volume by its plugin; return the reason of a failure."""
        kind = await in_thread(self._owner, directory)
        if kind is None:
            return ""
        started, problem = self._context.clock.now(), ""
        try:
            async with asyncio.timeout(SETUP_SECONDS):
                await kind.teardown(pod_uid, directory)
        except (NodeAgentError, OSError) as error:  # TimeoutError is a subclass of OSError.
            problem = f"{directory.name}: {_text(error)}"
        observe(kind.name, UNMOUNT, bool(problem), self._context.clock.now() - started)
        return problem

    def _count(self) -> Mapping[tuple[str, ...], int]:
        """Return the numbers of desired and of ready volumes by plugin."""
        counts: Counter[tuple[str, ...]] = Counter()
        for pod in self._context.pods.active():
            used = _mounted_names(pod) if pod.spec.volumes else ()
            for volume in pod.spec.volumes or ():
                if volume.name in used and (kind := self._kind(volume)) is not None:
                    counts[plugin_name(kind.name), "desired_state_of_world"] += 1
        for names in self._ready.values():
            counts.update((plugin_name(kind), "actual_state_of_world") for kind in names.values())
        return counts

    def _unmount_below(self, directory: Path) -> None:
        for path in self._mounter.below(directory):
            self._mounter.unmount(path)

    def _remove_leftovers(self, pod_dir: Path) -> None:
        """Unmount remaining mounts and remove empty directories; files without a volume plugin remain."""
        volumes, subpaths = pod_dir / "volumes", pod_dir / "volume-subpaths"
        self._unmount_below(volumes)
        remove_tree(subpaths)
        left = _volume_directories(volumes)
        remove_if_empty(*left, *{path.parent for path in left})
        if volumes.is_dir():
            remove_if_empty(*list(volumes.iterdir()), volumes)
        if kept := [str(path) for path in left if path.exists()]:
            _log.warning("Orphaned volumes found, but no volume plugin supports them", extra={"paths": kept})


def source_of(volume: Volume) -> str:
    """Return the JSON name of the source that *volume* has."""
    given = [wire for name, wire in _FIELDS.items() if name != "name" and getattr(volume, name) is not None]
    return given[0] if given else "unknown"


def _mounted_names(pod: Pod) -> set[str]:
    return {
        mount.name
        for _, container in pod.containers()
        for mount in (*(container.volume_mounts or ()), *(container.volume_devices or ()))
    }


def _volume_directories(volumes: Path) -> list[Path]:
    """Return the directories ``<volumes>/<kind>/<volume>``."""
    try:
        kinds = [entry for entry in volumes.iterdir() if entry.is_dir() and not entry.is_symlink()]
    except FileNotFoundError:
        return []
    return [path for kind in kinds for path in kind.iterdir() if path.is_dir() and not path.is_symlink()]


def _make_all(directories: set[Path]) -> None:
    for directory in directories:
        make_directories(directory)


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__
