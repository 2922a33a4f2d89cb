"""Finds what nobody wants: pods that only the runtime knows, and leftovers on disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from nodeagent.base.aio import Clock
from nodeagent.contracts.observe import PodObserver
from nodeagent.contracts.pods import PodSyncer
from nodeagent.errors import NodeAgentError
from nodeagent.podworker.workers import PodWorkers

_log = logging.getLogger(__name__)

ORPHAN_SECONDS = 10.0
LEFTOVER_SECONDS = 120.0


class Housekeeping:
    """Ends orphans soon after they show, and removes leftovers now and then.

    Does nothing before every source has published, because their pods are not known yet.
    """

    def __init__(self, pods: PodWorkers, cache: PodObserver, syncer: Callable[[], PodSyncer], clock: Clock) -> None:
        self._pods, self._cache, self._syncer, self._clock = pods, cache, syncer, clock
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look for orphans soon."""
        self._woken.set()

    async def run(self) -> None:
        """Work until cancelled."""
        leftovers_due = self._clock.now()
        while True:
            if self._pods.all_known:
                self._pods.end_orphans(list(self._cache.pods()))
                if self._clock.now() >= leftovers_due:
                    leftovers_due = self._clock.now() + LEFTOVER_SECONDS
                    await self._remove_leftovers()
            self._woken.clear()
            try:
                async with asyncio.timeout(ORPHAN_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                pass
            await self._clock.sleep(0.2)  # a burst of changes is one look

    async def _remove_leftovers(self) -> None:
        observed = frozenset(pod.uid for pod in self._cache.pods())
        try:
            await self._syncer().remove_orphans(self._pods.known_uids(), observed)
        except (NodeAgentError, OSError) as error:
            _log.warning("Leftovers of pods not removed, trying again", extra={"err": str(error)})
