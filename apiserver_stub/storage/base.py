"""Contract of stores: reads from memory, atomic updates, durability before acknowledgment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from apiserver_stub.storage.collection import Collection
from apiserver_stub.storage.record import Record
from nodeagent.base.structs import Struct


class StoreUnavailable(Exception):
    """A write could not be made durable (disk full, I/O error); no part of it is visible."""


class StoreRejected(Exception):
    """The store rejects a value for every client: it is too large, or encrypted with a missing key."""


class Put(Struct, frozen=True):
    """Store *data*; the record expires *ttl_seconds* after this write."""

    data: bytes
    ttl_seconds: int | None = None


class Remove(Struct, frozen=True):
    """Remove the record; *data* is its last state, which watchers see."""

    data: bytes


class Keep(Struct, frozen=True):
    """Write nothing and return the current record.

    A stored value that is stale (encrypted with an old key) is rewritten; the record then expires after *ttl_seconds*.
    """

    ttl_seconds: int | None = None


Outcome = Put | Remove | Keep

Probe = Callable[[float], Awaitable[str]]
"""Health check with a timeout in seconds; returns the problem, or an empty string."""


class Store(Protocol):
    """Durable, ordered and watchable collections of records with one revision counter."""

    async def open(self) -> None:
        """Load the stored records and start the background tasks.

        :raises StoreUnavailable: the stored records cannot be loaded.
        """
        ...

    @property
    def revision(self) -> int:
        """Return the latest visible revision."""
        ...

    def revision_of(self, name: str) -> int:
        """Return the latest visible revision of the collection *name*, which may be in a separate backend."""
        ...

    def collection(self, name: str) -> Collection:
        """Return the collection *name* (``group/plural``), created empty on first use."""
        ...

    def is_shared(self, name: str) -> bool:
        """Return whether other servers write to the backend of *name*: records in memory may have been replaced."""
        ...

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        """Apply ``decide(current)`` atomically and return the record once it is durable.

        *decide* has no side effects and may be called again after a conflict; its exceptions are propagated and nothing
        is written.

        :raises StoreUnavailable: the write could not be made durable.
        :raises StoreRejected: the value is too large, or the current value cannot be decrypted.
        """
        ...

    async def remove_unreadable(self, name: str, key: str) -> None:
        """Remove the value at *key* that cannot be decoded, once that is durable.

        Watchers are not notified, as they do not have the object.

        :raises LookupError: there is no such value.
        :raises StoreUnavailable: the removal could not be made durable.
        """
        ...

    async def catch_up(self, name: str, revision: int = 0) -> bool:
        """Wait until every write to the collection *name* that was acknowledged before the call is visible.

        :param revision: wait for this revision instead.
        :returns: whether it is visible; ``False`` after a few seconds without a response of the backend, when readers
            see the last known state.
        """
        ...

    async def is_assigned(self, name: str, revision: int) -> bool:
        """Return whether a write to the backend of *name* may have *revision*; ``False`` only if that is certain."""
        ...

    def probes(self) -> Mapping[str, Probe]:
        """Return the health checks by name."""
        ...

    async def count(self, name: str) -> int:
        """Return the number of records of the collection *name* in the backend.

        :raises StoreUnavailable: the backend does not respond.
        """
        ...

    async def sizes(self) -> Mapping[str, int]:
        """Return the database size in bytes of each server, by address.

        :raises StoreUnavailable: the backend does not respond.
        """
        ...

    async def reread(self) -> None:
        """Retry the decryption of unreadable records, after a change of keys."""
        ...

    async def close(self) -> None:
        """Complete the writes in progress and close files and connections."""
        ...
