"""Usage of volumes that outlive their pods, measured by their kinds or from the mounted file system.

A driver or server that does not respond delays no other volume: each measurement has a separate task and, for a file
system, a dedicated thread.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base.logging import v_level
from nodeagent.base.metrics import Histogram
from nodeagent.base.mounts.points import is_mount_point
from nodeagent.contracts.events import EventType
from nodeagent.contracts.persistent_volumes import StatefulVolumeManager, VolumeFigures, VolumeState
from nodeagent.contracts.stats import FilesystemStats, VolumeUsage
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Pod, Volume
from nodeagent_plugins.stats.machine import filesystem, nanoseconds

if TYPE_CHECKING:
    from nodeagent.contracts.context import ProberContext

WAIT_SECONDS = 2.0
"""Time after which the previous figures of a volume are used; the measurement continues."""
_THREADS = 8
_MOUNTED = "Mounted"
_CSI = "kubernetes.io/csi:"

_log = logging.getLogger(__name__)


class PersistentVolumeMeter:
    """Measures the mounted volumes of claims and drivers.

    :param durations: histogram of the durations by source.
    """

    def __init__(self, context: ProberContext, durations: Histogram) -> None:
        self._context, self._durations = context, durations
        self._latest: dict[tuple[str, str], VolumeUsage] = {}
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="asyncio-volume-stats")
        context.cleanup.callback(self._threads.shutdown, wait=False, cancel_futures=True)

    async def update(self, pod: Pod) -> Mapping[str, VolumeUsage | None]:
        """Measure the pod's volumes and return their usage by name, ``None`` for one without figures.

        Volumes that are not in the result have to be measured as directories of this node.
        """
        volumes = {volume.name: volume for volume in pod.spec.volumes or () if is_persistent(volume)}
        manager: object = self._context.volumes
        if not volumes or not isinstance(manager, StatefulVolumeManager):
            return {}
        mounted = {state.volume: state for state in manager.states(pod.uid) if state.phase == _MOUNTED}
        for name, volume in volumes.items():
            key = (pod.uid, name)
            if name not in mounted:
                self._latest.pop(key, None)
            elif key not in self._running:
                work = self._measure(manager, pod, volume, mounted[name])
                self._running[key] = self._context.tasks.start(work, f"volume stats {pod.full_name}/{name}")
                self._running[key].add_done_callback(functools.partial(self._ended, key))
        if tasks := [task for (uid, _), task in self._running.items() if uid == pod.uid]:
            await asyncio.wait(tasks, timeout=WAIT_SECONDS)
        return {name: self._latest.get((pod.uid, name)) for name in volumes}

    def forget(self, pod_uids: Sequence[str]) -> None:
        """Drop the figures of removed pods."""
        removed = set(pod_uids)
        self._latest = {key: usage for key, usage in self._latest.items() if key[0] not in removed}

    async def _measure(self, manager: StatefulVolumeManager, pod: Pod, volume: Volume, state: VolumeState) -> None:
        clock = self._context.clock
        started, key, figures = clock.now(), (pod.uid, volume.name), None
        source = state.plugin.removeprefix(_CSI) if state.plugin.startswith(_CSI) else "statfs"
        try:
            figures = await manager.measure(pod.uid, volume.name)
            if figures is None and not state.plugin.startswith(_CSI):
                loop = asyncio.get_running_loop()
                stats = await loop.run_in_executor(self._threads, _file_system, Path(state.path), self._now())
            else:
                stats = _converted(figures, self._now()) if figures is not None else None
        except (NodeAgentError, OSError) as error:
            _log.log(
                v_level(4),
                "Failed to calculate volume metrics",
                extra={"pod": pod.full_name, "podUID": pod.uid, "volumeName": volume.name, "err": str(error)},
            )
            return
        self._durations.observe(clock.now() - started, source)
        if stats is None:
            self._latest.pop(key, None)
            return
        claim = (state.claim_namespace, state.claim) if state.claim else None
        abnormal = figures.abnormal if figures is not None else None
        self._latest[key] = VolumeUsage(volume.name, stats, claim, abnormal=abnormal)
        if figures is not None and figures.abnormal:
            note = f"Volume {volume.name}: {figures.message}"
            self._context.recorder.record(pod.reference(), EventType.WARNING, "VolumeConditionAbnormal", note)

    def _ended(self, key: tuple[str, str], _task: asyncio.Task[None]) -> None:
        self._running.pop(key, None)

    def _now(self) -> int:
        return nanoseconds(self._context.clock.wall())


def is_persistent(volume: Volume) -> bool:
    """Return whether a volume is mounted from a claim, by a driver or from a server, any of which may hang."""
    sources = (volume.persistent_volume_claim, volume.ephemeral, volume.csi, volume.nfs)
    return any(source is not None for source in sources)


def _file_system(path: Path, now: int) -> FilesystemStats | None:
    """Return the usage of the file system that is mounted at *path*; ``None`` if none is."""
    return filesystem(path, now) if path.is_absolute() and is_mount_point(path) else None


def _converted(figures: VolumeFigures, now: int) -> FilesystemStats:
    return FilesystemStats(
        now,
        available_bytes=figures.available,
        capacity_bytes=figures.capacity,
        used_bytes=figures.used,
        inodes_free=figures.inodes_free,
        inodes=figures.inodes,
        inodes_used=figures.inodes_used,
    )
