"""Objects in the store of a simulated server, which a test changes one at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from apiserver_stub.simulation.invariants import Invariants
from apiserver_stub.simulation.violations import Violations
from apiserver_stub.storage.record import Change, Record

Object = dict[str, Any]


class Trace:
    def __init__(self) -> None:
        self.entries: list[tuple[str, str]] = []

    def add(self, kind: str, text: str) -> None:
        self.entries.append((kind, text))


class Stored:
    """A store whose changes the invariants observe.

    :ivar now: time in seconds.
    """

    def __init__(self) -> None:
        self.now, self.revision, self.trace = 0.0, 0, Trace()
        self.violations: Any = Violations(self.trace)  # type: ignore[arg-type]
        self.invariants = Invariants(self.violations, self.trace, lambda: self.now)  # type: ignore[arg-type]
        self._records: dict[tuple[str, str], Record] = {}

    @property
    def violation(self) -> str:
        return str(self.violations.first)

    def put(self, collection: str, key: str, metadata: Object | None = None, /, **fields: Any) -> None:
        """Create or replace an object; its UID is its key unless *metadata* has another."""
        namespace, _, name = key.rpartition("/")
        known = {"name": name, "uid": key, **({"namespace": namespace} if namespace else {})}
        self._write(collection, key, {"metadata": {**known, **(metadata or {})}, **fields})

    def create_again(self, collection: str, key: str) -> None:
        """Publish a second creation of an existing object."""
        previous = self._records[collection, key]
        self._publish("ADDED", collection, self._record(key, msgspec.json.decode(previous.data)), previous)

    def delete(self, collection: str, key: str) -> None:
        previous = self._records.pop((collection, key))
        self._publish("DELETED", collection, self._record(key, msgspec.json.decode(previous.data)), previous)

    def _write(self, collection: str, key: str, obj: Object) -> None:
        previous, record = self._records.get((collection, key)), self._record(key, obj)
        self._records[collection, key] = record
        self._publish("MODIFIED" if previous is not None else "ADDED", collection, record, previous)

    def _record(self, key: str, obj: Object) -> Record:
        self.revision += 1
        return Record(key, self.revision, msgspec.json.encode(obj))

    def _publish(self, kind: Any, collection: str, record: Record, previous: Record | None) -> None:
        write = SimpleNamespace(collection=collection, change=Change(kind, record, previous))
        self.invariants.history.published([write])


def owned(*uids: str) -> Object:
    """Return metadata with the owners *uids*, which have the same names."""
    return {"ownerReferences": [{"uid": uid, "name": uid.rpartition("/")[2]} for uid in uids]}
