"""Evented PLEG: refresh pods on events of the runtime's event stream."""

from __future__ import annotations

import logging
from collections.abc import Callable

from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.logging import v_level
from nodeagent.base.metrics import Counter, Histogram
from nodeagent.contracts.runtime import ContainerRuntime
from nodeagent.errors import RuntimeFailure
from nodeagent.pleg.cache import PodCache
from nodeagent.pleg.generic import RELIST_SECONDS, GenericPleg

_log = logging.getLogger(__name__)
MAX_RETRIES = 5

CONNECTED = Counter(
    "evented_pleg_connection_success_count",
    "The number of times a streaming client was obtained to receive CRI Events.",
)
BROKEN = Counter(
    "evented_pleg_connection_error_count",
    "The number of errors encountered during the establishment of streaming connection with the CRI runtime.",
)
LATENCY = Histogram(
    "evented_pleg_connection_latency_seconds",
    "The latency of streaming connection with the CRI runtime, measured in seconds.",
)


class EventedPleg:
    """Refreshes a pod when the runtime reports an event; the generic PLEG relists at a longer interval.

    After five consecutive stream failures, or if the runtime does not support events, only the generic PLEG is used.
    spec: gate.EventedPLEG
    """

    def __init__(
        self,
        runtime: Callable[[], ContainerRuntime],
        cache: PodCache,
        generic: GenericPleg,
        clock: Clock,
        *,
        trigger_sync: Callable[[str], None],
    ) -> None:
        self._runtime, self._cache, self._generic, self._clock, self._trigger_sync = (
            runtime,
            cache,
            generic,
            clock,
            trigger_sync,
        )

    async def run(self) -> None:
        """Process events until cancelled, or until the stream is unavailable."""
        backoff = Backoff(1.0, 30.0)
        failures = 0
        while failures < MAX_RETRIES:
            stream = self._runtime().events()
            if stream is None:
                return
            try:
                async for event in stream:
                    if failures or self._generic.period_seconds == RELIST_SECONDS:
                        failures = 0
                        backoff.reset()
                        self._generic.rely_on_events()
                        CONNECTED.inc()
                    if event.created_at:
                        LATENCY.observe(max(0.0, self._clock.wall().timestamp() - event.created_at / 1e9))
                    try:
                        await self._cache.refresh(event.pod_uid)
                    except RuntimeFailure:
                        self._generic.relist_soon()
                    self._trigger_sync(event.pod_uid)
            except NotImplementedError:
                _log.info("Using Generic PLEG, container runtime without event support")
                return
            except RuntimeFailure as error:
                BROKEN.inc()
                _log.log(
                    v_level(4), "Evented PLEG: Failed to get container events, retrying: ", extra={"err": str(error)}
                )
            finally:
                self._generic.rely_on_listings()
            failures += 1
            await self._clock.sleep(backoff.next())
        _log.log(v_level(4), "Fall back to Generic PLEG relisting since Evented PLEG is not working")
