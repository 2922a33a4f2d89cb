"""Quota charges of requests in progress, shared by the servers of a store.

Each server stores its charges in a separate record before it charges a quota, and removes them once the requests have
ended. Thus a server that counts the usage of a quota includes the objects that other servers have not stored yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects, resource_lists
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.resource_lists import Amounts
from apiserver_stub.storage import Outcome, Put, Record, Remove, StoreRejected, StoreUnavailable
from nodeagent.base.aio import Clock, SystemClock

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

CHARGES = "core/quotacharges"
_RETRY_SECONDS = 1.0


class SharedCharges:
    """Charges of this server and of the others.

    :param server: name of this process; no two processes share it.
    :param ttl_seconds: time after which the charges of a server that was killed expire: longer than any request.
    """

    def __init__(self, store: Store, server: str, ttl_seconds: int, clock: Clock | None = None) -> None:
        self._store, self._server, self._ttl_seconds = store, server, ttl_seconds
        self._clock = clock or SystemClock()
        self._own: dict[int, tuple[str, Amounts]] = {}
        self._decoded: dict[str, tuple[int, list[tuple[str, Amounts]]]] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._changed = asyncio.Event()

    def add(self, key: str, amounts: Amounts) -> None:
        """Add the charge of *amounts* to the quota at *key*; :meth:`stored` waits until other servers see it."""
        self._own[id(amounts)] = key, amounts
        self._changed.set()

    def remove(self, amounts: Amounts) -> None:
        """Remove a charge: its request has ended."""
        del self._own[id(amounts)]
        self._changed.set()

    async def stored(self) -> None:
        """Wait until all charges that were added before the call are stored.

        :raises StoreUnavailable: they are not.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._changed.set()
        await waiter

    def of_others(self, key: str) -> Iterator[Amounts]:
        """Yield the charges of other servers to the quota at *key*."""
        for record in self._store.collection(CHARGES).view():
            if record.key != self._server:
                yield from (amounts for quota, amounts in self._read(record) if quota == key)

    async def next_change(self, seconds: float) -> None:
        """Wait until a server stores other charges, at most *seconds*."""
        collection = self._store.collection(CHARGES)
        waiter = collection.next_change()
        try:
            await asyncio.wait({waiter}, timeout=seconds)
        finally:
            collection.abandon(waiter)

    async def run(self) -> None:
        """Store the charges of this server until cancelled; concurrent changes are one write."""
        waiting: list[asyncio.Future[None]] = []
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                waiting, self._waiting = self._waiting, []
                try:
                    await self._write()
                except (StoreUnavailable, StoreRejected) as error:
                    _finish(waiting, error)
                    _log.warning("Failed to store quota charges, will retry", extra={"err": error})
                    self._changed.set()
                    await self._clock.sleep(_RETRY_SECONDS)
                else:
                    _finish(waiting)
        finally:
            _finish([*waiting, *self._waiting], StoreUnavailable("the server stops"))

    async def _write(self) -> None:
        charges = [{"quota": key, "used": resource_lists.write(amounts)} for key, amounts in self._own.values()]
        metadata = {"name": self._server}
        data = objects.encode_for_store(
            {"kind": "QuotaCharges", "apiVersion": "v1", "metadata": metadata, "charges": charges}
        )

        def decide(current: Record | None) -> Outcome:
            if charges:
                return Put(data, self._ttl_seconds)
            if current is None:
                raise LookupError
            return Remove(current.data)

        try:
            await self._store.update(CHARGES, self._server, decide)
        except LookupError:
            return  # Expired, or never stored.

    def _read(self, record: Record) -> list[tuple[str, Amounts]]:
        revision, charges = self._decoded.get(record.key, (0, []))
        if revision != record.revision:
            charges = list(charges_in(record))
            self._decoded = {key: item for key, item in self._decoded.items() if self._is_stored(key)}
            self._decoded[record.key] = record.revision, charges
        return charges

    def _is_stored(self, server: str) -> bool:
        return self._store.collection(CHARGES).get(server) is not None


def charges_in(record: Record) -> Iterator[tuple[str, Amounts]]:
    """Yield the quota keys and amounts in the record of a server."""
    stored: Object = objects.decode(record.data)
    for charge in stored.get("charges") or ():
        yield charge["quota"], resource_lists.read(charge["used"])


def _finish(waiting: list[asyncio.Future[None]], error: Exception | None = None) -> None:
    for waiter in waiting:
        if waiter.done():
            continue  # Its request was cancelled.
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)
