"""Periodic image garbage collection and its events."""

from __future__ import annotations

import logging

from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventType
from nodeagent.errors import NodeAgentError
from nodeagent_plugins.image_gc.collector import CollectionFailed, Collector

_log = logging.getLogger(__name__)

PERIOD_SECONDS = 300.0


class ImageGcLoop:
    """Collects at startup and every five minutes; a repeated failure is recorded as an event."""

    name = "image_gc"

    def __init__(self, context: AgentContext, collector: Collector) -> None:
        self._context, self._collector = context, collector

    async def run(self) -> None:
        """Run until cancelled."""
        failures = 0
        while True:
            due = self._context.clock.now() + PERIOD_SECONDS
            try:
                await self._collector.collect()
            except NodeAgentError as error:
                failures += 1
                self._report(error, lasting=failures > 1)
            else:
                failures = 0
            await self._context.clock.sleep_until(due)

    def _report(self, error: NodeAgentError, *, lasting: bool) -> None:
        if lasting:
            _log.error("Image garbage collection failed multiple times in a row", extra={"err": str(error)})
        else:
            _log.error(
                "Image garbage collection failed once. Stats initialization may not have completed yet",
                extra={"err": str(error)},
            )
        regarding, record = self._context.node_reference(), self._context.recorder.record
        if isinstance(error, CollectionFailed) and error.event:
            record(regarding, EventType.WARNING, error.event, str(error))
        if lasting:
            record(regarding, EventType.WARNING, "ImageGCFailed", str(error))
