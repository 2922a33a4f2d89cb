"""Volume usage, measured in the background.

spec: config.volumeStatsAggPeriod, gate.LocalStorageCapacityIsolationFSQuotaMonitoring
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from nodeagent.base.aio.shared_times import until_shared
from nodeagent.base.logging import v_level
from nodeagent.base.metrics import Histogram
from nodeagent.base.project_quota import ProjectUsage, own_project, project_usage
from nodeagent.contracts.context import ProberContext
from nodeagent.contracts.stats import VolumeUsage
from nodeagent.model.pod import Pod, Volume
from nodeagent_plugins.stats.disk import WalkTooLong, use_of_tree
from nodeagent_plugins.stats.machine import filesystem, nanoseconds
from nodeagent_plugins.stats.persistent_volumes import PersistentVolumeMeter

_log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
"""Maximum interval of checks for new pods."""
SHORTEST_PAUSE_SECONDS = 5.0
"""Pause in which pods become due, which are then measured together."""
BATCH = 16
"""Maximum number of pods that are measured by one call in a thread, which delays their results."""
WALK_SECONDS = 60.0
WALKS = Histogram(
    "volume_metric_collection_duration_seconds", "Duration in seconds to calculate volume stats", ("metric_source",)
)


class VolumeMeter:
    """Measures the volumes of each pod every period with jitter, sequentially in a thread.

    A period of 0 or less disables the measurement.

    :param jitter: returns random numbers from 0 to 1.
    """

    name = "volume usage"

    def __init__(self, context: ProberContext, jitter: Callable[[], float] = random.random) -> None:
        self._context, self._jitter = context, jitter
        self._period = context.config.volume_stats_agg_period.seconds
        self._quotas = context.gates.enabled("LocalStorageCapacityIsolationFSQuotaMonitoring")
        self._persistent = PersistentVolumeMeter(context, WALKS)
        self._measured: dict[str, Sequence[VolumeUsage]] = {}
        self._due: dict[str, float] = {}

    def latest(self, pod_uid: str) -> Sequence[VolumeUsage]:
        """Return the last measurement of a pod."""
        return self._measured.get(pod_uid, ())

    async def measure_now(self) -> None:
        """Measure the volumes of all pods that may still write."""
        for batch in _batches([pod for pod in self._context.pods.active() if pod.spec.volumes]):
            await self._update(batch)

    async def run(self) -> None:
        """Run until cancelled."""
        if self._period <= 0:
            _log.info("Volume stats collection disabled", extra={"volumeStatsAggPeriod": self._period})
            await asyncio.Event().wait()
        clock = self._context.clock
        while True:
            pods = {pod.uid: pod for pod in self._context.pods.all() if pod.spec.volumes}
            self._persistent.forget(list(self._due.keys() - pods.keys()))
            for gone in self._due.keys() - pods.keys():
                del self._due[gone]
                self._measured.pop(gone, None)
            now = clock.now()
            for batch in _batches([pod for uid, pod in pods.items() if self._due.get(uid, 0.0) <= now]):
                await self._update(batch)
            soonest, now = min(self._due.values(), default=clock.now() + self._period), clock.now()
            pause = min(max(soonest - now, SHORTEST_PAUSE_SECONDS), self._period, CHECK_SECONDS)
            await clock.sleep(until_shared(clock.now(), pause))

    async def _update(self, pods: Sequence[Pod]) -> None:
        walks: list[float] = []
        persistent = [await self._persistent.update(pod) for pod in pods]
        before = [{volume.name: volume for volume in self._measured.get(pod.uid, ())} for pod in pods]
        measured = await asyncio.to_thread(self._measure, pods, before, walks, persistent)
        for seconds in walks:
            WALKS.observe(seconds, "du")
        for pod, usage, claims in zip(pods, measured, persistent, strict=True):
            self._measured[pod.uid] = (*usage, *filter(None, claims.values()))
            now = self._context.clock.now()
            self._due[pod.uid] = now + until_shared(now, self._period * (1 + self._jitter()))

    def _measure(
        self,
        pods: Sequence[Pod],
        before: Sequence[dict[str, VolumeUsage]],
        walks: list[float],
        omitted: Sequence[Collection[str]],
    ) -> list[list[VolumeUsage]]:
        each = zip(pods, before, omitted, strict=True)
        return [list(self._measure_all(pod, last, walks, names)) for pod, last, names in each]

    def _measure_all(
        self, pod: Pod, before: dict[str, VolumeUsage], walks: list[float], omitted: Collection[str]
    ) -> Iterator[VolumeUsage]:
        directories = _directories(self._context.pod_dir(pod.uid) / "volumes")
        for volume in pod.spec.volumes or ():
            path = directories.get(volume.name)
            if path is None or volume.name in omitted:
                continue
            if volume.flex_volume is not None:  # A driver may hang, and few have metrics.
                continue
            try:
                yield self._measure_one(pod, volume, path, walks)
            except (OSError, WalkTooLong) as error:
                _log.log(
                    v_level(4),
                    "Failed to calculate volume metrics",
                    extra={"pod": pod.full_name, "podUID": pod.uid, "volumeName": volume.name, "err": str(error)},
                )
                if volume.name in before:
                    yield before[volume.name]

    def _measure_one(self, pod: Pod, volume: Volume, path: Path, walks: list[float]) -> VolumeUsage:
        """Return the usage of a volume; append the duration of a directory walk to *walks*."""
        whole = filesystem(path, nanoseconds(self._context.clock.wall()))
        if whole is None:
            raise FileNotFoundError(str(path))
        if not path.is_mount():  # The file system is shared.
            accounted = self._accounted(volume, path)
            if accounted is not None:
                return VolumeUsage(
                    volume.name,
                    replace(whole, used_bytes=accounted.bytes, inodes_used=accounted.inodes),
                    local_ephemeral=True,
                )
            started = self._context.clock.now()
            use = use_of_tree(path, WALK_SECONDS)
            walks.append(self._context.clock.now() - started)
            whole = replace(whole, used_bytes=use.bytes, inodes_used=use.inodes)
        return VolumeUsage(volume.name, whole, _claim(pod, volume), is_local_ephemeral(volume))

    def _accounted(self, volume: Volume, path: Path) -> ProjectUsage | None:
        """Return the usage that the kernel accounts to an emptyDir volume with a project ID, if there is any."""
        if not self._quotas or volume.empty_dir is None:
            return None
        try:
            project = own_project(path)
            return project_usage(path, project) if project else None
        except OSError:
            return None


def _batches(pods: Sequence[Pod]) -> Iterator[Sequence[Pod]]:
    for start in range(0, len(pods), BATCH):
        yield pods[start : start + BATCH]


def is_local_ephemeral(volume: Volume) -> bool:
    """Return whether the volume is stored on the node's disk and removed with the pod."""
    on_disk = volume.empty_dir is not None and not volume.empty_dir.medium
    return on_disk or volume.config_map is not None or volume.git_repo is not None


def _claim(pod: Pod, volume: Volume) -> tuple[str, str] | None:
    if volume.persistent_volume_claim is not None:
        return pod.namespace, str(volume.persistent_volume_claim.get("claimName", ""))
    return (pod.namespace, f"{pod.name}-{volume.name}") if volume.ephemeral is not None else None


def _directories(volumes: Path) -> dict[str, Path]:
    """Return the directories ``<volumes>/<kind>/<volume>`` by volume name."""
    found = {}
    with contextlib.suppress(OSError), os.scandir(volumes) as kinds:
        for kind in kinds:
            with contextlib.suppress(OSError), os.scandir(kind.path) as entries:
                found.update({e.name: Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)})
    return found
