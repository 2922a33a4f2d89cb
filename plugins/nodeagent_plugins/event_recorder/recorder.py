"""Records events without waiting, and tells the server about them in the background."""

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
"""How often a server may fail at one event before that event is given up; one that is away is waited for."""

_log = logging.getLogger(__name__)


class ApiRecorder:
    """Keeps the contract ``EventRecorder``: what the server cannot be told now is kept and told later, newest first.

    :ivar refused: events that the server would not take in any form.
    """

    def __init__(self, sink: Sink, ledger: EventAggregator, clock: Clock, tasks: TaskOwner) -> None:
        self._sink, self._ledger, self._clock, self._tasks = sink, ledger, clock, tasks
        self._waker = Waker(clock)
        self._backoff = Backoff(1.0, 10.0, jitter=0.5)
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._away = False
        self._dropped = 0
        self.refused = 0

    @property
    def dropped(self) -> int:
        """How many occurrences the server will never learn of."""
        return self._ledger.dropped

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
        self._ledger.record(regarding, type, reason, note, action, related, annotations)
        _log.debug("Event", extra={"object": regarding.name, "type": str(type), "reason": reason, "note": note})
        self._note_drops()
        self._start()
        self._waker.wake()

    async def flush(self, timeout_seconds: float) -> None:
        try:
            async with asyncio.timeout(timeout_seconds):
                while (series := self._ledger.take(newest_first=self._away, all_due=True)) is not None:
                    if not await self._tell(series):
                        break
        except TimeoutError:
            pass
        if self._ledger.pending:
            _log.warning("Events left untold", extra={"series": self._ledger.pending})

    async def _run(self) -> None:
        """Tell what is due until cancelled."""
        while True:
            series = self._ledger.take(newest_first=self._away)
            if series is None:
                self._note_drops(rest=True)
                due = self._ledger.next_due()
                await self._waker.wait(_LONG_SECONDS if due is None else max(0.0, due - self._clock.now()))
            elif not await self._tell(series):
                await self._clock.sleep(self._backoff.next())

    async def _tell(self, series: Series) -> bool:
        """Tell the server about *series*; return whether it is there to be told more."""
        async with self._turn:
            count = series.count
            try:
                await (self._sink.count(series) if series.told else self._sink.begin(series))
            except ApiError as error:
                return self._failed(series, error)
            except BaseException:  # cancelled: the answer is not known
                self._ledger.put_back(series, newest_first=self._away)
                raise
            self._ledger.told(series, count)
            self._note_back()
            return True

    def _failed(self, series: Series, error: ApiError) -> bool:
        """Decide what becomes of *series*; return whether others may be told now."""
        if series.told and isinstance(error, ApiNotFound):
            self._ledger.begin_again(series)
            return True
        series.tries += 1
        answered = not isinstance(error, ApiUnavailable)
        if (error.transient and not (answered and series.tries >= _TRIES)) or error.code == 401:
            self._ledger.put_back(series, newest_first=self._away)
            self._note_away(error)
            return False
        self._refuse(series, error)
        return True

    def _start(self) -> None:
        """Start the background work with the first event; after the end only :meth:`flush` tells more."""
        if self._task is not None and not self._task.done():
            return
        try:
            asyncio.get_running_loop()
            self._task = self._tasks.start(self._run(), "event recorder")
        except RuntimeError:  # no loop yet, or the owner is closed
            return

    # --- logged once for a change of state ----------------------------------------------------------------

    def _note_away(self, error: ApiError) -> None:
        if not self._away:
            _log.warning("Events cannot be sent and are kept", extra={"err": str(error)})
        self._away = True

    def _note_back(self) -> None:
        self._backoff.reset()
        if self._away and not self._ledger.backlog:
            _log.info("Events are sent again", extra={"dropped": self.dropped})
            self._away = False

    def _refuse(self, series: Series, error: ApiError) -> None:
        level = logging.DEBUG if self.refused else logging.WARNING
        where = f"{series.regarding.namespace}/{series.regarding.name}"
        _log.log(level, "Server refused an event", extra={"object": where, "reason": series.reason, "err": str(error)})
        self.refused += 1
        self._ledger.drop(series)

    def _note_drops(self, *, rest: bool = False) -> None:
        """Log when drops begin, and how many there were once everything else is told."""
        total = self._ledger.dropped - self.refused
        if rest and self._dropped:
            _log.warning("Events were dropped", extra={"dropped": total})
            self._dropped = 0
        elif not rest and total > 0 and not self._dropped:
            _log.warning("Too many events: old repeats are dropped")
            self._dropped = total
