"""Aggregation of recorded events into series, and the queue of series to send. No I/O.

The rules are those of the kubelet. Equal events are one series, whose event the server has once with a count. From ten
different messages of one reason on, each within ten minutes of the last, further ones go into one combined series. An
occurrence that exceeds the limit per object is counted, and sent with the next one that does not.

Unlike the kubelet, the recorder keeps a series while the server is unavailable, and sends repeats within a few seconds
together. The series of an object that has ended are dropped once they are sent, others after an hour without an
occurrence. The number of series is bounded: first those with nothing to send are evicted, then repeats of Normal
events. Repeats of Warnings and series that were never sent are evicted last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from datetime import datetime

from msgspec import field

from nodeagent.base.aio import Clock, TokenBuckets
from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.events import EventType
from nodeagent.model.meta import ObjectReference

_Key = tuple[Hashable, ...]
"""Starts with the object."""

CAPACITY = 4096
SIMILAR_LIMIT = 10
SIMILAR_SECONDS = 600.0
SERIES_SECONDS = 3600.0
"""Time after which a series ends; by default, the server deletes an event that long after its last change."""
SIMILAR_PREFIX = "(combined from similar events): "
FIRST_REPEAT_SECONDS = 1.0
"""Time for which the first repeats of a series are collected before the count is sent; it increases afterwards."""
REPEAT_SECONDS = 10.0
SPAM_BURST = 25
SPAM_REFILL_SECONDS = 300.0
"""The time after which one more event about the same object may be sent, so that one that is always unhealthy does not
fill the API server."""

_MAX_NOTE_BYTES = 1024
_MAX_WORD_BYTES = 128


class Series(MutableStruct, eq=False):
    """An event and its repeats."""

    key: _Key
    regarding: ObjectReference
    related: ObjectReference | None
    type: EventType
    reason: str
    action: str
    note: str
    first_at: datetime
    last_at: datetime
    count: int = 1
    serial: int = 0
    """Distinguishes series that started in the same microsecond."""
    sent_count: int = 0
    """Number of occurrences on the server; 0 if the event does not exist on the server."""
    accepted: int = 0
    """The count up to the last occurrence within the limit of the object; 0 if all exceeded it."""
    due: float = 0.0
    """Monotonic time from which repeats may be sent."""
    recorded_at: float = 0.0
    """Monotonic time of the last occurrence."""
    tries: int = 0
    ended: bool = False
    """The object records no more events."""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def unsent(self) -> int:
        """Number of occurrences to send; the sent count includes those over the limit."""
        return max(0, self.accepted - self.sent_count)


class _Similar(MutableStruct):
    last: float
    notes: dict[str, None] = field(default_factory=dict)


class EventAggregator:
    """Series by the key of equal events, least recently recorded first.

    :ivar dropped: number of occurrences that were dropped before they were sent.
    """

    def __init__(self, clock: Clock, capacity: int = CAPACITY) -> None:
        self._clock, self._capacity = clock, capacity
        self._series: OrderedDict[_Key, Series] = OrderedDict()
        self._firsts: OrderedDict[_Key, Series] = OrderedDict()
        self._repeats: OrderedDict[_Key, Series] = OrderedDict()
        self._similar: OrderedDict[_Key, _Similar] = OrderedDict()
        self._spam = TokenBuckets(1 / SPAM_REFILL_SECONDS, SPAM_BURST, clock, CAPACITY)
        self._serial = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._series)

    @property
    def pending(self) -> int:
        """Number of series with unsent occurrences."""
        return len(self._firsts) + len(self._repeats)

    @property
    def backlog(self) -> int:
        """Number of series that do not exist on the server."""
        return len(self._firsts)

    def record(
        self,
        regarding: ObjectReference,
        type: EventType,
        reason: str,
        note: str,
        action: str,
        related: ObjectReference | None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Record one occurrence."""
        reason = cut(reason, _MAX_WORD_BYTES) or "Unknown"
        subject = _subject(regarding)
        alike: _Key = (subject, type, reason)
        if self._one_of_many(alike, note):
            note = SIMILAR_PREFIX + note
        else:
            alike = (subject, type, reason, regarding.field_path, note)
        self._expire()
        now = self._clock.wall()
        series = self._series.get(alike)
        if series is None:
            self._serial += 1
            series = self._series[alike] = Series(
                key=alike,
                regarding=regarding,
                related=related,
                type=type,
                reason=reason,
                action=cut(action, _MAX_WORD_BYTES),
                note=cut(note, _MAX_NOTE_BYTES),
                first_at=now,
                last_at=now,
                serial=self._serial,
                annotations=dict(annotations or {}),
            )
        else:
            series.count, series.last_at = series.count + 1, now
            series.note = cut(note, _MAX_NOTE_BYTES)  # Of similar events, the message of the last one is shown.
            self._series.move_to_end(alike)
        series.recorded_at = self._clock.now()
        if self._spam.try_take(subject):
            self._accept(series)
        self._shrink()

    def take(self, *, newest_first: bool = False, all_due: bool = False) -> Series | None:
        """Remove and return the next series to send: new ones in order, then repeats that are due."""
        if self._firsts:
            return self._firsts.popitem(last=newest_first)[1]
        now = self._clock.now()
        for key, series in self._repeats.items():
            if all_due or series.due <= now:
                del self._repeats[key]
                return series
        return None

    def next_due(self) -> float | None:
        """Return the monotonic time from which :meth:`take` returns a series, or ``None``."""
        if self._firsts:
            return self._clock.now()
        return min((series.due for series in self._repeats.values()), default=None)

    def mark_sent(self, series: Series, count: int) -> None:
        """Record that the server has *count* occurrences of *series*."""
        pause = REPEAT_SECONDS if series.sent_count else FIRST_REPEAT_SECONDS
        series.sent_count, series.due = count, self._clock.now() + pause
        series.tries = 0
        if self._series.get(series.key) is not series:
            return  # Dropped since then.
        if series.unsent:
            self._expect(series)
        elif series.ended:
            self.drop(series)

    def put_back(self, series: Series, *, newest_first: bool = False) -> None:
        """Queue a series again that could not be sent, at the end from which :meth:`take` removed it."""
        if self._series.get(series.key) is not series:
            return  # Dropped since then.
        waiting = self._repeats if series.sent_count else self._firsts
        waiting[series.key] = series
        waiting.move_to_end(series.key, last=newest_first)

    def recreate(self, series: Series) -> None:
        """Create the event of *series* again, with its count, because it has expired on the server."""
        series.sent_count = 0
        self._repeats.pop(series.key, None)
        self.put_back(series)

    def drop(self, series: Series) -> None:
        """Drop *series*, which cannot be sent."""
        self.dropped += series.unsent
        for container in (self._series, self._firsts, self._repeats):
            if container.get(series.key) is series:
                del container[series.key]

    def end(self, regarding: ObjectReference) -> None:
        """Drop the series of an object that records no more events, unsent ones once they are sent."""
        subject = _subject(regarding)
        for series in [each for key, each in self._series.items() if key[0] == subject]:
            series.ended = True
            if not series.unsent:
                self.drop(series)
        for alike in [key for key in self._similar if key[0] == subject]:
            del self._similar[alike]
        self._spam.forget(subject)

    # --- helpers ------------------------------------------------------------------------------------------

    def _accept(self, series: Series) -> None:
        """Queue all occurrences of *series* up to now."""
        first, series.accepted = series.accepted == 0, series.count
        if first:
            self._firsts[series.key] = series
        self._expect(series)

    def _expect(self, series: Series) -> None:
        """Queue the repeats of *series*; one that is in flight is checked again after its request."""
        if series.sent_count and series.key not in self._repeats:
            self._repeats[series.key] = series

    def _one_of_many(self, key: _Key, note: str) -> bool:
        """Return whether there were so many similar events recently that this one is combined."""
        now = self._clock.now()
        similar = self._similar.get(key)
        if similar is None or now - similar.last > SIMILAR_SECONDS:
            similar = self._similar[key] = _Similar(now)
        similar.last = now
        self._similar.move_to_end(key)
        similar.notes[note] = None
        if len(self._similar) > self._capacity:
            self._similar.popitem(last=False)
        if len(similar.notes) < SIMILAR_LIMIT:
            return False
        similar.notes.pop(next(iter(similar.notes)))
        return True

    def _expire(self) -> None:
        """Drop the series and the similar events whose next occurrence would start new ones."""
        now = self._clock.now()
        while (series := next(iter(self._series.values()), None)) is not None:
            if series.unsent or now - series.recorded_at <= SERIES_SECONDS:
                break
            self.drop(series)
        while (similar := next(iter(self._similar.values()), None)) is not None:
            if now - similar.last <= SIMILAR_SECONDS:
                break
            self._similar.popitem(last=False)

    def _shrink(self) -> None:
        if len(self._series) <= self._capacity:
            return
        self.drop(next(self._victims()))

    def _victims(self) -> Iterator[Series]:
        """Yield the series to evict, least important first, then by age."""
        *older, _ = self._series.values()
        yield from (s for s in older if not s.unsent)
        yield from (s for s in older if s.sent_count and s.type is EventType.NORMAL)
        yield from (s for s in older if s.type is EventType.NORMAL)
        yield from (s for s in older if s.sent_count)
        yield from older


def _subject(regarding: ObjectReference) -> Hashable:
    return (regarding.api_version, regarding.kind, regarding.namespace, regarding.name, regarding.uid)


def cut(text: str, most_bytes: int) -> str:
    """Return *text* truncated to *most_bytes* of UTF-8."""
    data = text.encode(errors="replace")
    if len(data) <= most_bytes:
        return data.decode()
    return data[: most_bytes - 3].decode(errors="ignore") + "…"
