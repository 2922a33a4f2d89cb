"""Legacy token tracking: publish the date since which the use of legacy service account tokens is tracked."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Keep, Outcome, Put, Record
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_CONFIG_MAPS = "core/configmaps"
_NAME, _SINCE = "kube-apiserver-legacy-service-account-token-tracking", "since"
_CREATION_SECONDS = 1800.0
"""Minimum time between two creations, since a server that does not track tokens deletes the ConfigMap."""


async def track_legacy_tokens(store: Store, identity: Identity) -> None:
    """Run the legacy token tracking controller until cancelled."""
    await LegacyTokenTracking(store, identity).run()


class LegacyTokenTracking:
    """Controller of the ConfigMap that contains the date."""

    def __init__(self, store: Store, identity: Identity, clock: Clock | None = None) -> None:
        self._store, self._clock = store, clock or SystemClock()
        self._namespace = identity.system_namespace
        self._key = objects.key_of(self._namespace, _NAME)
        self._queue: WorkQueue[str] = WorkQueue("legacy-token-tracking", clock)
        self._next_creation = self._clock.now()

    async def run(self) -> None:
        self._queue.add(self._key)
        await run_controller(ChangeFeed(self._store, [_CONFIG_MAPS], self), self._queue, self._process)

    def reset(self) -> None:
        """Do nothing: the controller has no state."""

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if record.key == self._key:
            self._queue.add(record.key)

    def remove(self, collection: str, record: Record) -> None:
        if record.key == self._key:
            self._queue.add(record.key)

    async def _process(self, key: str) -> None:
        delay = self._next_creation - self._clock.now()
        if delay > 0 and self._store.collection(_CONFIG_MAPS).get(key) is None:
            self._queue.add_after(key, delay)
            return
        today, created = f"{self._clock.wall():%Y-%m-%d}", False

        def decide(current: Record | None) -> Outcome:
            nonlocal created
            created = current is None
            found = self._new() if current is None else objects.decode(current.data)
            data = found.get("data") or {}
            if _is_date(data.get(_SINCE)):
                return Keep()
            return Put(objects.encode_for_store({**found, "data": {**data, _SINCE: today}}))

        await self._store.update(_CONFIG_MAPS, key, decide)
        if created:
            self._next_creation = self._clock.now() + _CREATION_SECONDS

    def _new(self) -> Object:
        metadata = {"name": _NAME, "namespace": self._namespace, "uid": objects.new_uid()}
        return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata | {"creationTimestamp": objects.now()}}


def _is_date(text: object) -> bool:
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
