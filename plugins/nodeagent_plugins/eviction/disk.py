"""Disk watcher: check hard thresholds every second, because a pod can fill a disk between two eviction passes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nodeagent.base.aio import Clock
from nodeagent.model.eviction_thresholds import Signal, Threshold
from nodeagent_plugins.eviction.signals import Observation, is_met

POLL_SECONDS = 1.0

_INODES = {Signal.NODEFS: Signal.NODEFS_INODES, Signal.IMAGEFS: Signal.IMAGEFS_INODES}
_WATCHED = frozenset((*_INODES, *_INODES.values()))


class DiskWatch:
    """Calls *crossed* once each time a hard threshold of a disk is met.

    A threshold that remains met is left to the regular passes, because reclaiming takes time.

    :param paths: returns a path on each disk by the signal of its space; unknown disks are omitted.
    """

    def __init__(
        self,
        thresholds: Sequence[Threshold],
        paths: Callable[[], Mapping[Signal, Path]],
        clock: Clock,
        crossed: Callable[[], None],
    ) -> None:
        self._thresholds = [each for each in thresholds if each.hard and each.signal in _WATCHED]
        self._paths, self._clock, self._crossed = paths, clock, crossed

    @property
    def needed(self) -> bool:
        """Return whether there is a threshold to watch."""
        return bool(self._thresholds)

    async def run(self) -> None:
        """Run until cancelled."""
        known: set[Threshold] = set()
        while True:
            await self._clock.sleep(POLL_SECONDS)
            seen = await asyncio.to_thread(_check, self._paths())
            met = {each for each in self._thresholds if is_met(each, seen)}
            # An unreadable disk keeps its state; the regular passes report the error.
            met |= {each for each in known if each.signal not in seen}
            if met - known:
                self._crossed()
            known = met


def _check(paths: Mapping[Signal, Path]) -> dict[Signal, Observation]:
    seen, looked_at = dict[Signal, Observation](), dict[Path, os.statvfs_result]()
    for space, path in paths.items():
        try:
            status = looked_at.get(path) or os.statvfs(path)
        except OSError:
            continue
        looked_at[path] = status
        seen[space] = Observation(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)
        if status.f_files:
            seen[_INODES[space]] = Observation(status.f_ffree, status.f_files)
    return seen
