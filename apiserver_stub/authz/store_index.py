"""Incremental updates of an index over stored objects from the change log of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.storage import Store
from apiserver_stub.storage.collection import Collection, Compacted

_BATCH = 256


class Index(Protocol):
    """Protocol of an index that :class:`IndexUpdater` maintains."""

    def put(self, collection: str, key: str, obj: Object) -> None:
        """Add or update an object."""
        ...

    def remove(self, collection: str, key: str) -> None:
        """Remove an object."""
        ...


class IndexUpdater:
    """Updater of *index* from the *names* collections of *store*."""

    def __init__(self, store: Store, names: Sequence[str], index: Index) -> None:
        self._index = index
        self._followed = [_Followed(store.collection(name)) for name in names]

    def catch_up(self) -> None:
        """Apply all pending changes; cheap without changes."""
        for followed in self._followed:
            if followed.position != followed.collection.end:
                followed.catch_up(self._index, limit=None)

    async def keep_current(self) -> None:
        """Apply changes in small batches as they occur, until cancelled, so that requests have few to apply.

        Readers of the latest state must call :meth:`catch_up` nevertheless.
        """
        await asyncio.gather(*(self._keep(followed) for followed in self._followed))

    async def _keep(self, followed: _Followed) -> None:
        while True:
            if followed.position is not None:
                await followed.collection.wait(followed.position)
            followed.catch_up(self._index, limit=_BATCH)
            await asyncio.sleep(0)


class _Followed:
    """A collection and the position up to which its change log was read."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.position: int | None = None
        self._keys: set[str] = set()

    def catch_up(self, index: Index, *, limit: int | None) -> None:
        collection, name = self.collection, self.collection.name
        end = collection.end
        if self.position is None:
            self._reload(index)
            return
        try:
            changes = collection.read(self.position, end - self.position if limit is None else limit)
        except Compacted:
            self._reload(index)
            return
        for change in changes:
            key = change.record.key
            if change.type == "DELETED":
                self._keys.discard(key)
                index.remove(name, key)
            else:
                self._keys.add(key)
                index.put(name, key, objects.decode(change.record.data))
        self.position += len(changes)

    def _reload(self, index: Index) -> None:
        """Read all objects: initially, and after a compaction beyond the current position."""
        collection = self.collection
        records = collection.select()
        for key in self._keys.difference(record.key for record in records):
            index.remove(collection.name, key)
        self._keys = {record.key for record in records}
        for record in records:
            index.put(collection.name, record.key, objects.decode(record.data))
        self.position = collection.end
