"""Event recorder that sends events in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from nodeagent.base.aio import Backoff, Clock, TaskOwner
from nodeagent.base.aio.waker import Waker
from nodeagent.contracts.events import EventType
from nodeagent.errors import ApiError, ApiNotFound, ApiUnavailable
from nodeagent.model.meta import ObjectReference
from nodeagent_plugins.event_recorder.aggregator import EventAggregator, Series
from nodeagent_plugins.event_recorder.sink import Sink

_LONG_SECONDS = 3600.0
_TRIES = 12
"""Number of failed attempts after which an event is dropped; an unavailable server is retried without a limit."""

_log = logging.getLogger(__name__)


class ApiRecorder:
    """Implements ``EventRecorder``: events that cannot be sent are queued and sent later, latest first.

    :ivar rejected: number of events that the server rejected.
    """

    def __init__(self, sink: Sink, aggregator: EventAggregator, clock: Clock, tasks: TaskOwner) -> None:
        self._sink, self._aggregator, self._clock, self._tasks = sink, aggregator, clock, tasks
        self._waker = Waker(clock)
        self._backoff = Backoff(1.0, 10.0, jitter=0.5)
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._away = False
        self._dropped = 0
        self.rejected = 0

    @property
    def dropped(self) -> int:
        """Number of occurrences that were dropped."""
        return self._aggregator.dropped

    def record(
        self,
        regarding: ObjectReference,
        type: EventType,
        reason: str,
        note: str,
        *,
        action: str = "",
        related: ObjectReference | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        self._aggregator.record(regarding, type, reason, note, action, related, annotations)
        _log.debug("Event", extra={"object": regarding.name, "type": str(type), "reason": reason, "note": note})
        self._note_drops()
        self._start()
        self._waker.wake()

    async def flush(self, timeout_seconds: float) -> None:
        try:
            async with asyncio.timeout(timeout_seconds):
                while (series := self._aggregator.take(newest_first=self._away, all_due=True)) is not None:
                    if not await self._send(series):
                        break
        except TimeoutError:
            pass
        if self._aggregator.pending:
            _log.warning("Dropped unsent events on shutdown", extra={"series": self._aggregator.pending})

    async def _run(self) -> None:
        """Send due series until cancelled."""
        while True:
            series = self._aggregator.take(newest_first=self._away)
            if series is None:
                self._note_drops(rest=True)
                due = self._aggregator.next_due()
                await self._waker.wait(_LONG_SECONDS if due is None else max(0.0, due - self._clock.now()))
            elif not await self._send(series):
                await self._clock.sleep(self._backoff.next())

    async def _send(self, series: Series) -> bool:
        """Send *series*; return whether the server is available."""
        async with self._turn:
            count = series.count
            try:
                await (self._sink.count(series) if series.sent_count else self._sink.begin(series))
            except ApiError as error:
                return self._failed(series, error)
            except BaseException:  # Cancelled: the result is unknown.
                self._aggregator.put_back(series, newest_first=self._away)
                raise
            self._aggregator.mark_sent(series, count)
            self._note_back()
            return True

    def _failed(self, series: Series, error: ApiError) -> bool:
        """Decide whether to retry *series*; return whether others may be sent now."""
        if series.sent_count and isinstance(error, ApiNotFound):
            self._aggregator.recreate(series)
            return True
        series.tries += 1
        responded = not isinstance(error, ApiUnavailable)
        if (error.transient and not (responded and series.tries >= _TRIES)) or error.code == 401:
            self._aggregator.put_back(series, newest_first=self._away)
            self._note_away(error)
            return False
        self._reject(series, error)
        return True

    def _start(self) -> None:
        """Start the background task with the first event; after it has stopped, only :meth:`flush` sends events."""
        if self._task is not None and not self._task.done():
            return
        try:
            asyncio.get_running_loop()
            self._task = self._tasks.start(self._run(), "event recorder")
        except RuntimeError:  # There is no event loop yet, or the owner is closed.
            return

    # --- logged once per change of state ------------------------------------------------------------------

    def _note_away(self, error: ApiError) -> None:
        if not self._away:
            _log.warning("Failed to send events, queueing them", extra={"err": str(error)})
        self._away = True

    def _note_back(self) -> None:
        self._backoff.reset()
        if self._away and not self._aggregator.backlog:
            _log.info("Resumed sending events", extra={"dropped": self.dropped})
            self._away = False

    def _reject(self, series: Series, error: ApiError) -> None:
        level = logging.DEBUG if self.rejected else logging.WARNING
        where = f"{series.regarding.namespace}/{series.regarding.name}"
        _log.log(level, "Server rejected event", extra={"object": where, "reason": series.reason, "err": str(error)})
        self.rejected += 1
        self._aggregator.drop(series)

    def _note_drops(self, *, rest: bool = False) -> None:
        """Log when the first event is dropped, and the total once all others are sent."""
        total = self._aggregator.dropped - self.rejected
        if rest and self._dropped:
            _log.warning("Dropped events", extra={"dropped": total})
            self._dropped = 0
        elif not rest and total > 0 and not self._dropped:
            _log.warning("Too many events, dropping old repeats")
            self._dropped = total
