"""Takes changes of pods from the runtime's own event stream, where it has one."""

from __future__ import annotations

import logging
from collections.abc import Callable

from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.metrics import Counter, Histogram
from nodeagent.contracts.runtime import ContainerRuntime
from nodeagent.errors import RuntimeFailure
from nodeagent.pleg.cache import PodCache
from nodeagent.pleg.generic import RELIST_SECONDS, GenericPleg

_log = logging.getLogger(__name__)
MAX_RETRIES = 5

CONNECTED = Counter(
    "evented_pleg_connection_success_count",
    "Streams of container events that were opened.",
)
BROKEN = Counter(
    "evented_pleg_connection_error_count",
    "The number of errors encountered during the establishment of streaming connection.",
)
LATENCY = Histogram(
    "evented_pleg_connection_latency_seconds",
    "How old container events were when they came.",
)


class EventedPleg:
    """Looks at a pod when the runtime tells of it; the generic PLEG goes on slowly as a safety net.

    After five broken streams in a row, or when the runtime has no such call, the generic PLEG takes over for good.
    spec: gate.EventedPLEG
    """

    def __init__(
        self,
        runtime: Callable[[], ContainerRuntime],
        cache: PodCache,
        generic: GenericPleg,
        clock: Clock,
        *,
        wake: Callable[[str], None],
    ) -> None:
        self._runtime, self._cache, self._generic, self._clock, self._wake = runtime, cache, generic, clock, wake

    async def run(self) -> None:
        """Follow the stream until cancelled, or until the runtime turns out to have none."""
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
                    self._wake(event.pod_uid)
            except NotImplementedError:
                _log.info("The runtime has no event stream; pods are listed instead")
                return
            except RuntimeFailure as error:
                BROKEN.inc()
                _log.warning("Event stream of the runtime broke", extra={"err": str(error)})
            finally:
                self._generic.rely_on_listings()
            failures += 1
            await self._clock.sleep(backoff.next())
        _log.error("Event stream of the runtime keeps breaking; pods are listed instead")
