"""An index over stored objects that is as new as the store: it reads what has changed, never everything again."""

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
    """What is kept current."""

    def put(self, collection: str, key: str, obj: Object) -> None:
        """Take in a new or changed object."""
        ...

    def remove(self, collection: str, key: str) -> None:
        """Forget an object."""
        ...


class IndexUpdater:
    """Keeps *index* current with the *names* collections of *store*."""

    def __init__(self, store: Store, names: Sequence[str], index: Index) -> None:
        self._index = index
        self._followed = [_Followed(store.collection(name)) for name in names]

    def catch_up(self) -> None:
        """Bring the index to where the store is; free when nothing has changed."""
        for followed in self._followed:
            if followed.position != followed.collection.end:
                followed.catch_up(self._index, limit=None)

    async def keep_current(self) -> None:
        """Do the same as soon as something changes, in small steps, so that no request has much to do; until cancelled.

        Whoever needs the newest state calls :meth:`catch_up` all the same.
        """
        await asyncio.gather(*(self._keep(followed) for followed in self._followed))

    async def _keep(self, followed: _Followed) -> None:
        while True:
            if followed.position is not None:
                await followed.collection.wait(followed.position)
            followed.catch_up(self._index, limit=_BATCH)
            await asyncio.sleep(0)


class _Followed:
    """One collection, and how far its log was read."""

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
        """Read everything: at first, and after the log has gone on further than it reaches back."""
        collection = self.collection
        records = collection.select()
        for key in self._keys.difference(record.key for record in records):
            index.remove(collection.name, key)
        self._keys = {record.key for record in records}
        for record in records:
            index.put(collection.name, record.key, objects.decode(record.data))
        self.position = collection.end
