"""History of the store: each durable change in order, against which responses, lists and watches are verified.

The store's functions are observed. After a crash, the loaded records must equal the published ones, together with all
or none of the batch that was being written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from apiserver_stub.storage.record import Record
from apiserver_stub.storage.sqlite import SqliteStore
from nodeagent.base.structs import Struct


class Entry(Struct, frozen=True):
    """One change of an object."""

    revision: int
    key: str
    type: str
    data: bytes
    before: bytes
    """The object before the change; empty if it did not exist."""

    def object(self) -> dict[str, Any]:
        """Return the decoded object."""
        return decode(self.data)

    def previous(self) -> dict[str, Any] | None:
        """Return the decoded object before the change."""
        return decode(self.before) if self.before else None


class StoreHistory:
    """All changes of one database.

    :param violate: reports a violation.
    :param observe: is called with the collection and each new change, in order of the revisions.
    """

    def __init__(self, violate: Any, observe: Any) -> None:
        self._violate, self._observe = violate, observe
        self.revision = 0
        """Latest revision that clients can have seen."""
        self.observed: Callable[[], int] = lambda: self.revision
        """Returns the latest revision that all running servers have observed."""
        self.varies_removals = False
        """Events of a removal may have the state before it, as only the server that removes the object has the last."""
        self.current: dict[str, dict[str, Entry]] = {}
        """The state by collection and key."""
        self._entries: dict[str, list[Entry]] = {}
        self._base: dict[str, dict[str, Entry]] = {}
        self._floor = 0
        self._pending: list[Any] = []
        self._failed: list[list[Any]] = []
        """Batches that failed since the last one that was written."""
        self.durable_unacknowledged = 0
        """Number of changes that a crash left in the database without a response."""

    # --- called by the observed functions of the store ----------------------------------------------------------

    def committing(self, batch: list[Any]) -> None:
        """Record the batch that is being written."""
        self._pending = list(batch)

    def failed(self) -> None:
        """Record that the batch was not written.

        The result is unknown to its clients: SQLite may have written all of it before the error, and it is then found
        after a crash, unless a later batch has overwritten it.
        """
        self._failed.append(self._pending)
        self._pending = []

    def published(self, batch: list[Any]) -> None:
        """Record a batch that is durable and visible."""
        self._pending, self._failed = [], []
        for write in batch:
            change = write.change
            previous = self.current.get(write.collection, {}).get(change.record.key)
            seen = change.previous.revision if change.previous is not None else 0
            if (previous.revision if previous is not None else 0) != seen:
                self._violate(f"{write.collection} {change.record.key} was changed without regard to its last change")
            self._add(write.collection, change.type, change.record)

    def applied(self, revision: int, changes: Sequence[tuple[str, str, Record]]) -> None:
        """Record the changes of a revision, each with its collection and type; etcd can have several or none."""
        if revision <= self.revision:
            names = ", ".join(f"{collection} {record.key}" for collection, _, record in changes)
            self._violate(f"revision {revision} of {names} after {self.revision}")
        self.revision = revision
        for collection, kind, record in changes:
            self._store(collection, kind, record)

    def loaded(self, store: SqliteStore) -> None:
        """Verify the records that a new process has read."""
        found = {
            (name, record.key): record for name in store._collections for record in store.collection(name).select()
        }
        if store.revision < self.revision:
            self._violate(f"revision {store.revision} after a restart, but {self.revision} was published")
        differences = self._differences(found, [])
        for batch in (self._pending, *self._failed):
            if differences and not self._differences(found, batch):
                for write in batch:
                    self._add(write.collection, write.change.type, write.change.record)
                    self.durable_unacknowledged += 1
                differences = []
        if differences:
            text = ", ".join(differences[:3])
            self._violate(f"a restart changed {text}" + (" while a batch was being written" if self._pending else ""))
            self.current = {}
            for (name, key), record in found.items():
                self.current.setdefault(name, {})[key] = Entry(record.revision, key, "ADDED", record.data, b"")
        self._pending, self._failed = [], []
        self.revision = max(self.revision, store.revision)

    # --- queries ------------------------------------------------------------------------------------------------

    def changes(self, collection: str, after: int, until: int | None = None) -> Iterator[Entry]:
        """Yield the changes of a collection after a revision.

        :param until: the last revision.
        """
        entries = self._entries.get(collection, [])
        start = bisect_right(entries, after, key=lambda entry: entry.revision)
        for index in range(start, len(entries)):
            if until is not None and entries[index].revision > until:
                return
            yield entries[index]

    def complete_after(self, revision: int) -> bool:
        """Return whether all changes after a revision are retained."""
        return revision >= self._floor

    def state_at(self, collection: str, revision: int) -> Mapping[str, Entry]:
        """Return the objects of a collection at a revision that is not older than the last :meth:`forget`."""
        state = dict(self._base.get(collection, {}))
        for entry in self._entries.get(collection, []):
            if entry.revision > revision:
                break
            if entry.type == "DELETED":
                state.pop(entry.key, None)
            else:
                state[entry.key] = entry
        return state

    def versions(self, collection: str, key: str, first: int, last: int) -> list[Entry | None]:
        """Return the states of an object between two revisions; ``None`` if it does not exist."""
        state = self._base.get(collection, {}).get(key)
        found: list[Entry | None] = []
        for entry in self._entries.get(collection, []):
            if entry.revision > last:
                break
            if entry.key == key:
                if entry.revision > first:
                    found.append(state)
                state = None if entry.type == "DELETED" else entry
        return [*found, state]

    def at(self, collection: str, revision: int) -> Entry | None:
        """Return the change with a revision."""
        return next(self.changes(collection, revision - 1, revision), None)

    def forget(self, before: int) -> None:
        """Drop the changes up to a revision."""
        for name, entries in self._entries.items():
            self._base[name] = dict(self.state_at(name, before))
            self._entries[name] = [entry for entry in entries if entry.revision > before]
        self._floor = before

    def _add(self, collection: str, kind: str, record: Record) -> None:
        self.applied(record.revision, [(collection, kind, record)])

    def _store(self, collection: str, kind: str, record: Record) -> None:
        state = self.current.setdefault(collection, {})
        before = state.get(record.key)
        entry = Entry(record.revision, record.key, kind, record.data, before.data if before is not None else b"")
        if kind == "DELETED":
            state.pop(record.key, None)
        else:
            state[record.key] = entry
        self._entries.setdefault(collection, []).append(entry)
        self._observe(collection, entry)

    def _differences(self, found: Mapping[tuple[str, str], Record], batch: Sequence[Any]) -> list[str]:
        """Return the differences of the records that were read to the current state after a batch."""
        expected: dict[tuple[str, str], Any] = {
            (name, key): entry for name, state in self.current.items() for key, entry in state.items()
        }
        for write in batch:
            record = write.change.record
            if write.change.type == "DELETED":
                expected.pop((write.collection, record.key), None)
            else:
                expected[write.collection, record.key] = record
        differences = [f"{name} {key}: is lost" for name, key in expected if (name, key) not in found]
        for (name, key), record in found.items():
            entry = expected.get((name, key))
            if entry is None:
                differences.append(f"{name} {key}: appeared")
            elif entry.revision != record.revision:
                differences.append(f"{name} {key}: revision {record.revision} instead of {entry.revision}")
            elif entry.data != record.data and decode(entry.data) != decode(record.data):
                differences.append(f"{name} {key}: other content")
        return differences


def decode(data: bytes) -> dict[str, Any]:
    """Return a decoded object."""
    found: dict[str, Any] = msgspec.json.decode(data)
    return found
