"""Event journal: the latest events of each pod, kept in memory for diagnostics."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime

from nodeagent.base.aio import Clock
from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.events import EventRecorder, EventType
from nodeagent.model.meta import ObjectReference

MAX_EVENTS_PER_POD = 16
MAX_PODS = 512


class JournalEntry(MutableStruct):
    """Equal events about one object, with count and first and last time."""

    type: EventType
    reason: str
    note: str
    field_path: str
    first: datetime
    last: datetime
    count: int = 1


class EventJournal:
    """An :class:`~nodeagent.contracts.events.EventRecorder` that forwards events and stores those about pods.

    The latest events of each pod are stored, for the pods with the most recent events.
    """

    def __init__(self, recorder: EventRecorder, clock: Clock) -> None:
        self._recorder, self._clock = recorder, clock
        self._entries: OrderedDict[str, list[JournalEntry]] = OrderedDict()

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
        self._recorder.record(regarding, type, reason, note, action=action, related=related, annotations=annotations)
        if regarding.kind == "Pod":
            self._store(regarding, type, reason, note)

    async def flush(self, timeout_seconds: float) -> None:
        await self._recorder.flush(timeout_seconds)

    def of(self, uid: str) -> Sequence[JournalEntry]:
        """Return the events of the pod, the latest last."""
        return self._entries.get(uid, ())

    def forget(self, uid: str) -> None:
        """Drop a removed pod."""
        self._entries.pop(uid, None)

    def _store(self, regarding: ObjectReference, type: EventType, reason: str, note: str) -> None:
        entries, now = self._entries.setdefault(regarding.uid, []), self._clock.wall()
        self._entries.move_to_end(regarding.uid)
        for index, entry in enumerate(entries):
            if (entry.reason, entry.note, entry.field_path) == (reason, note, regarding.field_path):
                entry.count, entry.last = entry.count + 1, now
                entries.append(entries.pop(index))
                return
        entries.append(JournalEntry(type, reason, note, regarding.field_path, now, now))
        if len(entries) > MAX_EVENTS_PER_POD:
            del entries[0]
        if len(self._entries) > MAX_PODS:
            self._entries.popitem(last=False)
