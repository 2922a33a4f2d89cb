"""How much of the disks of pods and images is left, looked at often: a pod can fill one within one round."""

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
    """Calls *crossed* once whenever less is left on a disk than a hard threshold allows.

    What is freed before pods go takes time, so a threshold that stays crossed is left to the ordinary rounds.

    :param places: returns a place on each disk by the signal of its space, as far as it is known by now.
    """

    def __init__(
        self,
        thresholds: Sequence[Threshold],
        places: Callable[[], Mapping[Signal, Path]],
        clock: Clock,
        crossed: Callable[[], None],
    ) -> None:
        self._thresholds = [each for each in thresholds if each.hard and each.signal in _WATCHED]
        self._places, self._clock, self._crossed = places, clock, crossed

    @property
    def wanted(self) -> bool:
        """Whether there is anything to watch."""
        return bool(self._thresholds)

    async def run(self) -> None:
        """Watch until cancelled."""
        known: set[Threshold] = set()
        while True:
            await self._clock.sleep(POLL_SECONDS)
            seen = await asyncio.to_thread(_look, self._places())
            met = {each for each in self._thresholds if is_met(each, seen)}
            # of a disk that cannot be looked at nothing has changed; the rounds tell that it cannot be measured
            met |= {each for each in known if each.signal not in seen}
            if met - known:
                self._crossed()
            known = met


def _look(places: Mapping[Signal, Path]) -> dict[Signal, Observation]:
    seen, looked_at = dict[Signal, Observation](), dict[Path, os.statvfs_result]()
    for space, place in places.items():
        try:
            status = looked_at.get(place) or os.statvfs(place)
        except OSError:
            continue
        looked_at[place] = status
        seen[space] = Observation(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)
        if status.f_files:
            seen[_INODES[space]] = Observation(status.f_ffree, status.f_files)
    return seen
