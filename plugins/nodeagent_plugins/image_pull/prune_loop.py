"""Periodic removal of the records of images that garbage collection or other tools have removed."""

from __future__ import annotations

import logging

from nodeagent.base.aio import Clock
from nodeagent.errors import NodeAgentError
from nodeagent_plugins.image_pull.access import ImageAccess

_log = logging.getLogger(__name__)

PERIOD_SECONDS = 300.0
"""The period of image garbage collection."""


class PruneLoop:
    """Removes outdated records every five minutes; implements a background loop."""

    name = "image_pull_records"

    def __init__(self, access: ImageAccess, clock: Clock) -> None:
        self._access, self._clock = access, clock

    async def run(self) -> None:
        """Run until cancelled; a failed pass is logged and repeated later."""
        while True:
            await self._clock.sleep(PERIOD_SECONDS)
            try:
                await self._access.prune()
            except (NodeAgentError, OSError) as error:
                _log.warning("Failed to prune image pull records", extra={"err": str(error)})
