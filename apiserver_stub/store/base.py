"""The contract of a store and the values that cross it.

Objects cross as JSON bytes that start with ``kind``, ``apiVersion``, ``metadata`` in this order and carry no
``resourceVersion``; the store knows the revision first and splices it in (:func:`with_revision`), so an object is
encoded once for its answer, its row and all its watchers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec

from apiserver_stub.store.collection import Collection

_METADATA = b'"metadata":{'


class StoreUnavailable(Exception):
    """A write could not be made durable (disk full, I/O error); nothing of it is visible."""


class Record(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One object as it is served: its key (``ns/name`` or ``name``), revision and JSON bytes.

    Records are many and hold no cycles, so the garbage collector never looks at them.
    """

    key: str
    revision: int
    data: bytes


ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Change(msgspec.Struct, gc=False, eq=False):
    """One revision of a collection; *record* of a deletion is the last state with the deletion's revision.

    ``shared`` holds what watchers derive from the change (decoded objects, encoded frames), so that it is derived once.
    """

    type: ChangeType
    record: Record
    previous: Record | None
    shared: dict[Any, Any] | None = None

    @property
    def revision(self) -> int:
        return self.record.revision


@dataclass(frozen=True, slots=True)
class Put:
    """Store *data*; with *ttl_seconds* the record is removed that long after this write."""

    data: bytes
    ttl_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the record; *data* is its last state, which watchers see."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Keep:
    """Write nothing; the current record is the answer."""


Outcome = Put | Remove | Keep


class Store(Protocol):
    """Durable, ordered, watched collections of records under one revision counter."""

    @property
    def revision(self) -> int:
        """Return the newest revision that readers may see."""
        ...

    @property
    def healthy(self) -> bool:
        """Return whether the newest write could be made durable."""
        ...

    def collection(self, name: str) -> Collection:
        """Return the collection *name* (``group/plural``), empty when nothing was ever written to it."""
        ...

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        """Apply ``decide(current)`` atomically and return the record once it is durable.

        *decide* is pure and may be called again after a lost race; what it raises is passed on and writes nothing.

        :raises StoreUnavailable: the write could not be made durable.
        """
        ...

    async def close(self) -> None:
        """Finish writes under way and release the files."""
        ...


def with_revision(data: bytes, revision: int) -> bytes:
    """Return *data* with ``resourceVersion`` as the first member of its metadata."""
    head, _, tail = data.partition(_METADATA)
    comma = b"" if tail[:1] == b"}" else b","
    return b'%s"metadata":{"resourceVersion":"%d"%s%s' % (head, revision, comma, tail)
