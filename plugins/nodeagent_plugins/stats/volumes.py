"""How full volumes are, measured in the background (spec: config.volumeStatsAggPeriod)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from nodeagent.base.logging import v_level
from nodeagent.base.metrics import Histogram
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.stats import VolumeUsage
from nodeagent.model.pod import Pod, Volume
from nodeagent_plugins.stats.disk import WalkTooLong, use_of_tree
from nodeagent_plugins.stats.machine import filesystem, nanoseconds

_log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""How often new pods are looked for, at most."""
WALK_SECONDS = 60.0
WALKS = Histogram("volume_metric_collection_duration_seconds", "How long measuring volumes took.", ("metric_source",))


class VolumeMeter:
    """Measures the volumes of each pod every period and a random part of another, one after another in a thread.

    A period of 0 or less measures nothing.

    :param jitter: gives numbers from 0 to 1.
    """

    name = "volume usage"

    def __init__(self, context: AgentContext, jitter: Callable[[], float] = random.random) -> None:
        self._context, self._jitter = context, jitter
        self._period = context.config.volume_stats_agg_period.seconds
        self._measured: dict[str, Sequence[VolumeUsage]] = {}
        self._due: dict[str, float] = {}

    def latest(self, pod_uid: str) -> Sequence[VolumeUsage]:
        """Return what was last measured of a pod."""
        return self._measured.get(pod_uid, ())

    async def measure_now(self) -> None:
        """Measure the volumes of every pod that may still write."""
        for pod in self._context.pods.active():
            if pod.spec.volumes:
                await self._update(pod)

    async def run(self) -> None:
        """Measure until cancelled."""
        if self._period <= 0:
            _log.info("Use of volumes is not measured", extra={"volumeStatsAggPeriod": self._period})
            await asyncio.Event().wait()
        clock = self._context.clock
        while True:
            pods = {pod.uid: pod for pod in self._context.pods.all() if pod.spec.volumes}
            for gone in self._due.keys() - pods.keys():
                del self._due[gone]
                self._measured.pop(gone, None)
            for uid, pod in pods.items():
                if self._due.get(uid, 0.0) > clock.now():
                    continue
                await self._update(pod)
            soonest = min(self._due.values(), default=clock.now() + self._period)
            await clock.sleep_until(min(soonest, clock.now() + min(self._period, LOOK_SECONDS)))

    async def _update(self, pod: Pod) -> None:
        walks: list[float] = []
        self._measured[pod.uid] = await asyncio.to_thread(self._measure, pod, self._measured.get(pod.uid, ()), walks)
        for seconds in walks:
            WALKS.observe(seconds, "du")
        self._due[pod.uid] = self._context.clock.now() + self._period * (1 + self._jitter())

    def _measure(self, pod: Pod, before: Sequence[VolumeUsage], walks: list[float]) -> Sequence[VolumeUsage]:
        return tuple(self._measure_all(pod, {volume.name: volume for volume in before}, walks))

    def _measure_all(self, pod: Pod, before: dict[str, VolumeUsage], walks: list[float]) -> Iterator[VolumeUsage]:
        places = _directories(self._context.pod_dir(pod.uid) / "volumes")
        for volume in pod.spec.volumes or ():
            place = places.get(volume.name)
            if place is None or volume.flex_volume is not None:  # a third party's may hang, and few drivers can tell
                continue
            try:
                yield self._measure_one(pod, volume, place, walks)
            except (OSError, WalkTooLong) as error:
                _log.log(
                    v_level(4),
                    "Volume could not be measured",
                    extra={"pod": pod.full_name, "volume": volume.name, "err": str(error)},
                )
                if volume.name in before:
                    yield before[volume.name]

    def _measure_one(self, pod: Pod, volume: Volume, place: Path, walks: list[float]) -> VolumeUsage:
        """Return the use of a volume; note in *walks* how long each look through files took."""
        whole = filesystem(place, nanoseconds(self._context.clock.wall()))
        if whole is None:
            raise FileNotFoundError(str(place))
        if not place.is_mount():  # shares its file system with others
            began = self._context.clock.now()
            use = use_of_tree(place, WALK_SECONDS)
            walks.append(self._context.clock.now() - began)
            whole = replace(whole, used_bytes=use.bytes, inodes_used=use.inodes)
        return VolumeUsage(volume.name, whole, _claim(pod, volume), is_local_ephemeral(volume))


def is_local_ephemeral(volume: Volume) -> bool:
    """Tell whether the volume lives on the node's disk and ends with the pod."""
    on_disk = volume.empty_dir is not None and not volume.empty_dir.medium
    return on_disk or volume.config_map is not None or volume.git_repo is not None


def _claim(pod: Pod, volume: Volume) -> tuple[str, str] | None:
    if volume.persistent_volume_claim is not None:
        return pod.namespace, str(volume.persistent_volume_claim.get("claimName", ""))
    return (pod.namespace, f"{pod.name}-{volume.name}") if volume.ephemeral is not None else None


def _directories(volumes: Path) -> dict[str, Path]:
    """Return the directories ``<volumes>/<kind>/<volume>`` by the volume's name."""
    found = {}
    with contextlib.suppress(OSError), os.scandir(volumes) as kinds:
        for kind in kinds:
            with contextlib.suppress(OSError), os.scandir(kind.path) as entries:
                found.update({e.name: Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)})
    return found
