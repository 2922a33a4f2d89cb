"""When the agent may be called ready: the first round over all pods is done."""

from __future__ import annotations

import logging
from collections.abc import Callable

from nodeagent.base.aio import Clock
from nodeagent.podworker.workers import PodWorkers

_log = logging.getLogger(__name__)

LONGEST_SECONDS = 20.0
"""A source that cannot be read, such as an API server that is down, holds up readiness no longer than this."""
_LOOK_SECONDS = 0.05


class FirstSync:
    """Waits until every source has published and every pod has a status of this agent's own."""

    def __init__(self, pods: PodWorkers, clock: Clock, done: Callable[[], None]) -> None:
        self._pods, self._clock, self._done = pods, clock, done

    async def run(self) -> None:
        """Call *done* when the round is done, or has taken too long."""
        limit = self._clock.now() + LONGEST_SECONDS
        while not self._complete():
            if self._clock.now() >= limit:
                _log.warning("The first sync is not complete yet", extra={"sources_known": self._pods.all_known})
                break
            await self._clock.sleep(_LOOK_SECONDS)
        self._done()

    def _complete(self) -> bool:
        return self._pods.all_known and all(self._pods.status(pod.uid) is not None for pod in self._pods.all())
