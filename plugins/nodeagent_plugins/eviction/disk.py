"""How much of the node's own disk is left, looked at often: a pod can fill it within one round."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from nodeagent.base.aio import Clock
from nodeagent.model.eviction_thresholds import Signal, Threshold
from nodeagent_plugins.eviction.signals import Observation, is_met

POLL_SECONDS = 1.0

_WATCHED = (Signal.NODEFS, Signal.NODEFS_INODES)


class DiskWatch:
    """Calls *crossed* once whenever less is left on the file system of *place* than a hard threshold allows.

    What is freed before pods go takes time, so a threshold that stays crossed is left to the ordinary rounds.
    """

    def __init__(self, thresholds: Sequence[Threshold], place: Path, clock: Clock, crossed: Callable[[], None]) -> None:
        self._thresholds = [each for each in thresholds if each.hard and each.signal in _WATCHED]
        self._place, self._clock, self._crossed = place, clock, crossed

    @property
    def wanted(self) -> bool:
        """Whether there is anything to watch."""
        return bool(self._thresholds)

    async def run(self) -> None:
        """Watch until cancelled."""
        known = False
        while True:
            await self._clock.sleep(POLL_SECONDS)
            try:
                seen = await asyncio.to_thread(_look, self._place)
            except OSError:
                continue  # the rounds tell that nothing can be measured
            met = any(is_met(each, seen) for each in self._thresholds)
            if met and not known:
                self._crossed()
            known = met


def _look(place: Path) -> dict[Signal, Observation]:
    status = os.statvfs(place)
    seen = {Signal.NODEFS: Observation(status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize)}
    if status.f_files:
        seen[Signal.NODEFS_INODES] = Observation(status.f_ffree, status.f_files)
    return seen
