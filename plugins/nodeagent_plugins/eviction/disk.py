"""Disk watcher: check hard thresholds, because a pod can fill a disk between two eviction passes.

A disk is checked every second, and less often while it has more space than can be written in that time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nodeagent.base.aio import Clock
from nodeagent.model.eviction_thresholds import Signal, Threshold
from nodeagent_plugins.eviction.signals import Observation, is_met

SHORTEST_POLL_SECONDS, LONGEST_POLL_SECONDS = 1.0, 5.0
FASTEST_USE = 4 << 30
"""Maximum expected use in bytes per second."""
FASTEST_INODE_USE = 200_000
"""Maximum expected use in inodes per second."""

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
        pause = SHORTEST_POLL_SECONDS
        while True:
            await self._clock.sleep(pause)
            seen = await asyncio.to_thread(_check, self._paths())
            left = min((_seconds_left(each, seen) for each in self._thresholds), default=0.0)
            pause = min(LONGEST_POLL_SECONDS, SHORTEST_POLL_SECONDS + left)
            met = {each for each in self._thresholds if is_met(each, seen)}
            # An unreadable disk keeps its state; the regular passes report the error.
            met |= {each for each in known if each.signal not in seen}
            if met - known:
                self._crossed()
            known = met


def _seconds_left(threshold: Threshold, seen: Mapping[Signal, Observation]) -> float:
    """Return the time in which *threshold* can be met at the earliest; 0 if that is not known."""
    if (observed := seen.get(threshold.signal)) is None:
        return 0.0
    left = observed.available - threshold.limit.of(observed.capacity)
    return max(0.0, left / (FASTEST_USE if threshold.signal in _INODES else FASTEST_INODE_USE))


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
