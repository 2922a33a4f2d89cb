"""Composite store: route collections to separate backends (``--store-servers-overrides``) with separate revisions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from apiserver_stub.storage.base import Outcome, Probe, Store, StoreUnavailable
from apiserver_stub.storage.collection import Collection
from apiserver_stub.storage.record import Record


class CompositeStore:
    """Store composed of several backends (spec: opt.store-servers-overrides).

    :param main: backend of the collections that are not in *overrides*.
    :param overrides: backend by collection.
    """

    def __init__(self, main: Store, overrides: Mapping[str, Store]) -> None:
        self._main, self._overrides = main, dict(overrides)
        self._others = list(dict.fromkeys(overrides.values()))

    def _of(self, name: str) -> Store:
        return self._overrides.get(name, self._main)

    @property
    def revision(self) -> int:
        return self._main.revision

    def revision_of(self, name: str) -> int:
        return self._of(name).revision_of(name)

    def collection(self, name: str) -> Collection:
        return self._of(name).collection(name)

    async def open(self) -> None:
        """Open all backends; raises as they do."""
        for store in (self._main, *self._others):
            await store.open()

    def is_shared(self, name: str) -> bool:
        return self._of(name).is_shared(name)

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        return await self._of(name).update(name, key, decide)

    async def remove_unreadable(self, name: str, key: str) -> None:
        await self._of(name).remove_unreadable(name, key)

    async def catch_up(self, name: str, revision: int = 0) -> bool:
        return await self._of(name).catch_up(name, revision)

    async def is_assigned(self, name: str, revision: int) -> bool:
        return await self._of(name).is_assigned(name, revision)

    def probes(self) -> Mapping[str, Probe]:
        found = dict(self._main.probes())
        for number, store in enumerate(self._others):
            found[f"etcd-override-{number}"] = store.probes()["etcd"]
        return found

    async def count(self, name: str) -> int:
        return await self._of(name).count(name)

    async def sizes(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for store in (self._main, *self._others):
            try:
                found |= await store.sizes()
            except StoreUnavailable:
                continue  # The sizes of the other backends are still reported.
        return found

    async def reread(self) -> None:
        for store in (self._main, *self._others):
            await store.reread()

    async def close(self) -> None:
        await asyncio.gather(*(store.close() for store in (self._main, *self._others)))
