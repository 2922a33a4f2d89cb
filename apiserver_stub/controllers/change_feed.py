"""Change feed of a controller: every object of some collections once, then each change, in bounded steps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from apiserver_stub.storage import Record, Store
from apiserver_stub.storage.collection import Collection, Compacted

_log = logging.getLogger(__name__)

STEP_RECORDS = 256
STEP_BYTES = 1 << 20


class ChangeHandler(Protocol):
    """Receiver of a feed; its methods are fast and do not block."""

    def reset(self) -> None:
        """Drop all state; every object is delivered again afterwards."""
        ...

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        """Receive a new or changed object; *previous* is its previous state, ``None`` if it is not available."""
        ...

    def remove(self, collection: str, record: Record) -> None:
        """Receive the last state of a deleted object."""
        ...


class ChangeFeed:
    """Feed of the objects and changes of the collections *names* to *handler*."""

    def __init__(self, store: Store, names: Sequence[str], handler: ChangeHandler) -> None:
        self._handler = handler
        self._collections = [store.collection(name) for name in names]
        self._positions: dict[str, int] = {}
        self._armed: dict[str, asyncio.Future[None]] = {}
        self._unarmed = list(self._collections)
        self._changed = asyncio.Event()
        self._lock = asyncio.Lock()
        self._work = 0

    def follow(self, collections: Iterable[Collection]) -> None:
        """Also deliver the objects and changes of *collections*; those that are followed already are ignored."""
        known = {item.name for item in self._collections}
        added = [item for item in collections if item.name not in known]
        if added:
            self._collections += added
            self._unarmed += added
            self._changed.set()

    async def run(self) -> None:
        """Deliver changes until cancelled."""
        try:
            while True:
                self._changed.clear()
                unarmed, self._unarmed = sorted(self._unarmed, key=self._collections.index), []
                await self._catch_up(unarmed)
                for collection in unarmed:
                    self._arm(collection)
                await self._changed.wait()
        finally:
            for collection in self._collections:
                if (waiter := self._armed.pop(collection.name, None)) is not None:
                    collection.abandon(waiter)

    async def catch_up(self) -> None:
        """Deliver all changes that were visible to readers of the store at the time of the call."""
        await self._catch_up(self._collections)

    async def _catch_up(self, collections: Iterable[Collection]) -> None:
        positions = self._positions
        behind = [(item, item.end) for item in collections if positions.get(item.name) != item.end]
        if not behind:
            return
        async with self._lock:
            if not self._positions:
                await self._load()
            for collection, end in behind:
                if collection.name not in self._positions:
                    self._positions[collection.name] = await self._deliver(collection)
                    continue
                try:
                    await self._read(collection, end)
                except Compacted:
                    await self._load()

    def _arm(self, collection: Collection) -> None:
        """Wait for the next change of a collection that was read to its end."""
        if collection.end != self._positions.get(collection.name):  # None while the feed restarts.
            self._note(collection)
        else:
            waiter = self._armed[collection.name] = collection.next_change()
            waiter.add_done_callback(lambda _: self._note(collection))

    def _note(self, collection: Collection) -> None:
        self._unarmed.append(collection)
        self._changed.set()

    async def _load(self) -> None:
        self._positions = {}
        self._handler.reset()
        positions = {}
        for collection in list(self._collections):
            positions[collection.name] = await self._deliver(collection)
        self._positions = positions

    async def _deliver(self, collection: Collection) -> int:
        """Deliver every object of *collection*; return the position of the next change."""
        position = collection.end
        for record in collection.select():
            self._pass(self._handler.see, collection.name, record, None)
            if self._completes_step(record):
                await asyncio.sleep(0)
        return position

    async def _read(self, collection: Collection, end: int) -> None:
        name = collection.name
        while self._positions[name] < end:
            for change in collection.read(self._positions[name], STEP_RECORDS):
                self._positions[name] += 1
                if change.type == "DELETED":
                    self._pass(self._handler.remove, name, change.record)
                else:
                    self._pass(self._handler.see, name, change.record, change.previous)
                if self._completes_step(change.record):
                    await asyncio.sleep(0)

    def _pass(self, pass_on: Callable[..., None], name: str, record: Record, *previous: Record | None) -> None:
        try:
            pass_on(name, record, *previous)
        except Exception as error:
            # One malformed object must not block the controller for all others.
            fields = {"collection": name, "key": record.key, "err": error}
            _log.error("Failed to handle object, ignoring", extra=fields, exc_info=error)

    def _completes_step(self, record: Record) -> bool:
        """Return whether so many records or bytes were delivered that the event loop must run."""
        self._work += STEP_BYTES // STEP_RECORDS + len(record.data)
        if self._work < STEP_BYTES:
            return False
        self._work = 0
        return True
