"""Housekeeping: clean up orphaned pods in the runtime and orphaned pod directories on disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from nodeagent.allocation.manager import AllocationManager
from nodeagent.base.aio import Clock
from nodeagent.base.aio.shared_times import until_shared
from nodeagent.base.aio.waker import wait_for
from nodeagent.contracts.pods import PodSyncer
from nodeagent.errors import NodeAgentError
from nodeagent.podworker.interfaces import PodObserver
from nodeagent.podworker.workers import PodWorkers

_log = logging.getLogger(__name__)

ORPHAN_SECONDS = 10.0
CLEANUP_SECONDS = 120.0


class Housekeeping:
    """Terminates orphaned pods promptly, and periodically removes their directories and cgroups.

    Does nothing until every source has published, because the desired state is incomplete. Directories and cgroups are
    left until the runtime has listed its pods, and those of each listed pod, also if its status cannot be read.
    """

    def __init__(
        self,
        pods: PodWorkers,
        cache: PodObserver,
        syncer: Callable[[], PodSyncer],
        clock: Clock,
        allocations: AllocationManager,
    ) -> None:
        self._pods, self._cache, self._syncer, self._clock = pods, cache, syncer, clock
        self._allocations = allocations
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Check for orphaned pods soon."""
        self._woken.set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            due, cleanup = self._clock.now(), None
            while True:
                if self._pods.all_sources_ready:
                    self._pods.terminate_orphans(list(self._cache.pods()))
                    observed = self._cache.uids()
                    is_due = self._clock.now() >= due and (cleanup is None or cleanup.done())
                    if observed is not None and is_due:
                        due = self._clock.now() + CLEANUP_SECONDS
                        # A volume that cannot be unmounted must not delay the termination of other pods.
                        cleanup = tasks.create_task(self._clean_up(observed), name="housekeeping/cleanup")
                await self._wait()

    async def _wait(self) -> None:
        self._woken.clear()
        await wait_for(self._woken, self._clock, until_shared(self._clock.now(), ORPHAN_SECONDS))
        if self._woken.is_set():
            await self._clock.sleep(0.2)  # Coalesce a burst of changes.

    async def _clean_up(self, observed: frozenset[str]) -> None:
        def is_known(uid: str) -> bool:
            return uid in observed or self._pods.is_known(uid)  # Pods are added during the cleanup.

        await self._allocations.retain(is_known)
        try:
            await self._syncer().remove_orphans(is_known)
        except (NodeAgentError, OSError) as error:
            _log.error("Failed cleaning pods", extra={"err": str(error)})
