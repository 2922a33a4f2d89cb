"""The contract of a store and the values that cross it.

Objects cross as JSON bytes that start with ``kind``, ``apiVersion``, ``metadata`` in this order and carry no
``resourceVersion``; the store knows the revision first and splices it in (:func:`with_revision`), so an object is
encoded once for its answer, its row and all its watchers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec

from apiserver_stub.store.collection import Collection

_METADATA = b'"metadata":{'


class StoreUnavailable(Exception):
    """A write could not be made durable (disk full, I/O error); nothing of it is visible."""


class StoreRefused(Exception):
    """The store will not take or hand out a value, whoever asks: too large for it, or sealed with a key not there."""


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
    """Write nothing; the current record is the answer.

    Stored bytes that are due to be written anew are, and the record's time then starts anew with *ttl_seconds*.
    """

    ttl_seconds: int | None = None


Outcome = Put | Remove | Keep

Probe = Callable[[float], Awaitable[str]]
"""Asks for a sign of life within so many seconds and returns what is wrong, empty when nothing is."""


class Store(Protocol):
    """Durable, ordered, watched collections of records under one revision counter."""

    async def open(self) -> None:
        """Read what is stored and start the background work.

        :raises StoreUnavailable: what is stored cannot be read.
        """
        ...

    @property
    def revision(self) -> int:
        """Return the newest revision that readers may see."""
        ...

    def revision_of(self, name: str) -> int:
        """Return the same for the collection *name*, which may be kept apart from the others."""
        ...

    def collection(self, name: str) -> Collection:
        """Return the collection *name* (``group/plural``), empty when nothing was ever written to it."""
        ...

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        """Apply ``decide(current)`` atomically and return the record once it is durable.

        *decide* is pure and may be called again after a lost race; what it raises is passed on and writes nothing.

        :raises StoreUnavailable: the write could not be made durable.
        :raises StoreRefused: the store will not take it, or cannot read what is there.
        """
        ...

    async def catch_up(self, name: str, revision: int = 0) -> None:
        """Return when readers of the collection *name* see everything that was acknowledged to anybody before the call.

        With *revision* return when readers may see that, at the latest after a few seconds. Nothing is raised when the
        store does not answer: readers then see what was seen last.
        """
        ...

    def probes(self) -> Mapping[str, Probe]:
        """Return what tells the health of each part, by the name of its check."""
        ...

    async def count(self, name: str) -> int:
        """Return how many records the collection *name* has, as the store itself counts them.

        :raises StoreUnavailable: the store does not answer.
        """
        ...

    async def sizes(self) -> Mapping[str, int]:
        """Return the bytes of the database of each server, by its address.

        :raises StoreUnavailable: the store does not answer.
        """
        ...

    def reread(self) -> None:
        """Try once more to read what no key fitted."""
        ...

    async def close(self) -> None:
        """Finish writes under way and release the files."""
        ...


def with_revision(data: bytes, revision: int) -> bytes:
    """Return *data* with ``resourceVersion`` as the first member of its metadata."""
    head, _, tail = data.partition(_METADATA)
    comma = b"" if tail[:1] == b"}" else b","
    return b'%s"metadata":{"resourceVersion":"%d"%s%s' % (head, revision, comma, tail)


def without_revision(data: bytes) -> bytes:
    """Return *data* as it was before :func:`with_revision`."""
    head, _, tail = data.partition(b'"metadata":{"resourceVersion":"')
    _, _, rest = tail.partition(b'"')
    return b'%s"metadata":{%s' % (head, rest.removeprefix(b","))
