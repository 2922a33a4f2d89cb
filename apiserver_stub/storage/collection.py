"""Collection of the objects of one resource in memory: current records in key order, recent changes in revision order.

Watchers hold a position in the shared log instead of a private queue: a slow watcher costs nothing, and one that falls
behind the start of the log gets :class:`Compacted`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

from apiserver_stub.storage.change_topics import ChangeTopics, TopicsOf
from apiserver_stub.storage.record import Change, Record

HISTORY_CHANGES = 16_384
HISTORY_BYTES = 16 << 20
_FEW_KEYS = 256


class Compacted(Exception):
    """The requested revision is older than the retained history, which starts at :attr:`oldest`."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"revision is older than {oldest}")
        self.oldest = oldest


class UnreadableValue(NamedTuple):
    """Stored value that cannot be decoded, with the reason."""

    revision: int
    stored: bytes
    problem: str
    is_decrypted: bool
    """``True`` if the value was decrypted, but is not an object."""


class Collection:
    """Records of one resource with their order and history."""

    def __init__(self, name: str, floor: int) -> None:
        self.name = name
        self._records: dict[str, Record] = {}
        self._sorted: list[str] = []
        self._unsorted: list[str] = []
        self._holes = False
        self._log: deque[Change] = deque()
        self._log_start = 0  # Sequence number of the first change in the log.
        self._log_bytes = 0
        self._floor = floor  # Oldest revision whose state can be reconstructed.
        self._waiters: dict[asyncio.Future[None], None] = {}
        """In the order of their start."""
        self._topics: dict[str, ChangeTopics] = {}
        self.encrypted_by: dict[str, bytes] = {}
        """Identity of the transformer that encrypted the stored value, by key; unencrypted records are absent."""
        self.unreadable: dict[str, UnreadableValue] = {}
        """Stored values that cannot be decoded, by key."""

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> Record | None:
        return self._records.get(key)

    def exists(self, key: str) -> bool:
        """Return whether there is a record or an unreadable value at *key*."""
        return key in self._records or key in self.unreadable

    def first_unreadable(self, prefix: str = "") -> UnreadableValue | None:
        """Return one of the unreadable values whose key starts with *prefix*, if there is any."""
        return next((found for key, found in self.unreadable.items() if key.startswith(prefix)), None)

    def select(self, prefix: str = "", after: str = "") -> list[Record]:
        """Return the records whose key starts with *prefix* and is at least *after*, in key order."""
        return list(self.view(prefix, after))

    def view(self, prefix: str = "", after: str = "") -> RecordView:
        """Return the same without a copy; valid until the next change."""
        keys = self._keys()
        start, end = _range(keys, prefix, after)
        return RecordView(self._records, keys, start, end)

    def select_at(self, revision: int, prefix: str = "", after: str = "") -> list[Record]:
        """Return the records as of *revision*.

        :raises Compacted: the history starts after it.
        """
        if revision < self._floor:
            raise Compacted(self._floor)
        past: dict[str, Record | None] = {}
        for change in reversed(self._log):
            if change.revision <= revision:
                break
            past[change.record.key] = change.previous
        if not past:
            return self.select(prefix, after)
        found = {record.key: record for record in self.select(prefix, after)}
        changed = sorted(past)
        for key in changed[slice(*_range(changed, prefix, after))]:
            record = past[key]
            if record is None:
                found.pop(key, None)
            else:
                found[key] = record
        return [found[key] for key in sorted(found)]

    def load(self, record: Record) -> None:
        """Add *record* during start-up, without a change."""
        self._records[record.key] = record
        self._unsorted.append(record.key)

    def reset(self, records: Iterable[Record], revision: int) -> None:
        """Replace all records by *records*, the state at *revision*; drop the history, so that watchers relist."""
        self._records = {record.key: record for record in records}
        self._sorted, self._holes = sorted(self._records), False
        self._unsorted.clear()
        end = self.end
        self._log_start = end + 1  # Behind the position of every reader.
        self._log.clear()
        self._log_bytes, self._floor = 0, revision
        for topics in self._topics.values():
            topics.note_all(end)
        self._notify_waiters()

    def compact(self, revision: int) -> None:
        """Drop the history before *revision*."""
        while self._log and self._log[0].revision <= revision:
            self._drop_oldest()
        self._floor = max(self._floor, revision)

    def publish(self, changes: Sequence[Change]) -> None:
        """Apply *changes*, in revision order, and notify the watchers."""
        start = self.end
        for change in changes:
            record = change.record
            if change.type == "DELETED":
                del self._records[record.key]
                self._holes = True
            else:
                if change.previous is None:
                    self._unsorted.append(record.key)
                self._records[record.key] = record
            self._log.append(change)
            self._log_bytes += _cost(change)
        self._trim()
        if self._holes and len(self._sorted) + len(self._unsorted) > 2 * len(self._records) + _FEW_KEYS:
            self._keys()  # Drops the keys of deleted records, also if no client lists the collection.
        for topics in self._topics.values():
            topics.note(start, changes)
        self._notify_waiters()

    def topics(self, name: str, topics_of: TopicsOf) -> ChangeTopics:
        """Return the followers of the topics that *topics_of* returns, under *name*."""
        if (found := self._topics.get(name)) is None:
            found = self._topics[name] = ChangeTopics(topics_of)
        return found

    def _notify_waiters(self) -> None:
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    @property
    def end(self) -> int:
        """Return the position after the latest change."""
        return self._log_start + len(self._log)

    def position_after(self, revision: int) -> int:
        """Return the position of the first change newer than *revision*.

        :raises Compacted: changes after *revision* may have been dropped.
        """
        if revision < self._floor:
            raise Compacted(self._floor)
        position = self.end
        for change in reversed(self._log):
            if change.revision <= revision:
                break
            position -= 1
        return position

    def read(self, position: int, limit: int) -> list[Change]:
        """Return at most *limit* changes from *position* on.

        :raises Compacted: the change at *position* has been dropped.
        """
        offset = position - self._log_start
        if offset < 0:
            raise Compacted(self._floor)
        log = self._log
        return [log[index] for index in range(offset, min(offset + limit, len(log)))]

    async def wait(self, position: int) -> None:
        """Return once there is a change at *position*."""
        while self.end <= position:
            waiter = self.next_change()
            try:
                await waiter
            finally:
                self.abandon(waiter)

    def next_change(self) -> asyncio.Future[None]:
        """Return a future that the next change resolves; abandon it with :meth:`abandon`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        return waiter

    def abandon(self, waiter: asyncio.Future[None]) -> None:
        """Abandon a future of :meth:`next_change`."""
        self._waiters.pop(waiter, None)

    def _keys(self) -> list[str]:
        if self._holes:
            # The remaining keys are mostly sorted, so this is much cheaper than a full sort while many records expire.
            records = self._records
            left = [key for key in (*self._sorted, *self._unsorted) if key in records]
            left.sort()
            self._sorted, self._holes = list(dict.fromkeys(left)), False  # A recreated key is present twice.
            self._unsorted.clear()
        elif self._unsorted:
            self._sorted += self._unsorted
            self._sorted.sort()
            self._unsorted.clear()
        return self._sorted

    def _trim(self) -> None:
        while len(self._log) > HISTORY_CHANGES or self._log_bytes > HISTORY_BYTES:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        change = self._log.popleft()
        self._log_start += 1
        self._log_bytes -= _cost(change)
        self._floor = change.revision


def _cost(change: Change) -> int:
    """Return the bytes that only the history references: the replaced or deleted record."""
    return len(change.previous.data) if change.previous is not None else 0


class RecordView(Sequence["Record"]):
    """Lazy sequence of the records of a range of sorted keys."""

    __slots__ = ("_end", "_keys", "_records", "_start")

    def __init__(self, records: dict[str, Record], keys: list[str], start: int, end: int) -> None:
        self._records, self._keys, self._start, self._end = records, keys, start, max(start, end)

    def __len__(self) -> int:
        return self._end - self._start

    def __iter__(self) -> Iterator[Record]:
        return map(self._records.__getitem__, self._keys[self._start : self._end])

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        positions = range(self._start, self._end)[index]
        if isinstance(positions, int):
            return self._records[self._keys[positions]]
        return [self._records[self._keys[position]] for position in positions]


def _range(keys: list[str], prefix: str, after: str) -> tuple[int, int]:
    """Return start and end of the keys that start with *prefix* and are at least *after*."""
    start = bisect_left(keys, max(prefix, after))
    return start, bisect_left(keys, prefix[:-1] + chr(ord(prefix[-1]) + 1)) if prefix else len(keys)
