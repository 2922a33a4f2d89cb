"""First sync: readiness of the agent requires one sync of all pods."""

from __future__ import annotations

import logging
from collections.abc import Callable

from nodeagent.base.aio import Clock
from nodeagent.podworker.workers import PodWorkers

_log = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 20.0
"""Longest delay of readiness if a source is unavailable, for example because the API server is down."""
_POLL_SECONDS = 0.05


class FirstSync:
    """Waits until every source has published and this agent has generated a status for every pod."""

    def __init__(self, pods: PodWorkers, clock: Clock, done: Callable[[], None]) -> None:
        self._pods, self._clock, self._done = pods, clock, done

    async def run(self) -> None:
        """Call *done* when the first sync is complete or has timed out."""
        limit = self._clock.now() + MAX_WAIT_SECONDS
        while not self._complete():
            if self._clock.now() >= limit:
                _log.warning(
                    "Timed out waiting for the first pod sync", extra={"allSourcesReady": self._pods.all_sources_ready}
                )
                break
            await self._clock.sleep(_POLL_SECONDS)
        self._done()

    def _complete(self) -> bool:
        return self._pods.all_sources_ready and all(self._pods.status(pod.uid) is not None for pod in self._pods.all())
