"""API service registration: one local API service per group version that this server serves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.kinds import api_services
from apiserver_stub.kinds.api_services import is_built_in, is_local, local_status, priorities
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from apiserver_stub.storage.collection import Collection
from apiserver_stub.storage.record import without_revision
from nodeagent.base.aio import Clock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.storage import Store

_AT_ONCE = 100
_MANAGED, _FOLLOWED = "onstart", "true"
"""Labels of API services of bundled kinds, and of those that change while the server runs."""
_MANAGED_OURS = (_MANAGED, _FOLLOWED)


class Registration:
    """Controller of the local API services, one per group version of *registry*.

    Deleted API services are recreated, and changed ones are restored if their label marks them as managed. API services
    of group versions that are no longer served are deleted, unless other servers share the store and may serve them.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        identity: Identity,
        *,
        shares_store: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._registry, self._shares_store = store, registry, shares_store
        self._identity, self._group = identity, identity.group(api_services.GROUP)
        self._queue: WorkQueue[str] = WorkQueue("api-services", clock)
        resource = registry.find(self._group, "v1", "apiservices")
        self._collection = resource.storage if resource is not None else ""
        self._label = identity.label("automanaged", "kube-aggregator")
        self._desired: dict[str, Object] = {}
        self._read_registry()
        registry.listen(self._read_registry)

    def _read_registry(self) -> None:
        """Queue the API services of the group versions that are served now or no longer."""
        before, self._desired = self._desired, {obj["metadata"]["name"]: obj for obj in self._objects()}
        for name in before.keys() ^ self._desired.keys():
            self._queue.add(name)

    def _objects(self) -> list[Object]:
        found = []
        for group, version in self._registry.group_versions():
            ranks = priorities(group, version, self._identity)
            if ranks is None:
                continue  # The APIService API itself has no API service.
            built_in = is_built_in(group, self._identity)
            spec: Object = {"group": group} if group else {}
            spec |= {"version": version, "groupPriorityMinimum": ranks[0], "versionPriority": ranks[1]}
            found.append(
                {
                    "kind": "APIService",
                    "apiVersion": f"{self._group}/v1",
                    "metadata": {
                        "name": f"{version}.{group}",
                        "labels": {self._label: _MANAGED if built_in else _FOLLOWED},
                    },
                    "spec": spec,
                }
            )
        return found

    async def register(self) -> None:
        """Create, update and delete API services as required, many concurrently; unreadable ones are kept.

        :raises StoreUnavailable: a write could not be made durable.
        """
        if not self._collection:
            return
        kept = {record.key: objects.decode(record.data) for record in self._stored().view()}
        due = [name for name, obj in self._desired.items() if name not in kept or self._differs(kept[name], obj)]
        due += [name for name, obj in kept.items() if name not in self._desired and self._is_due(obj)]
        due = [name for name in due if name not in self._stored().unreadable]
        for start in range(0, len(due), _AT_ONCE):
            await asyncio.gather(*(self._write(name) for name in due[start : start + _AT_ONCE]))

    async def keep(self) -> None:
        """Restore API services that are changed or deleted; runs until cancelled."""
        if self._collection:
            feed = ChangeFeed(self._store, [self._collection], self)
            await run_controller(feed, self._queue, self._process)

    def reset(self) -> None:
        for name in self._desired:
            self._queue.add(name)

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        obj, desired = objects.decode(record.data), self._desired.get(record.key)
        if self._differs(obj, desired) if desired is not None else self._is_due(obj):
            self._queue.add(record.key)

    def remove(self, collection: str, record: Record) -> None:
        if record.key in self._desired:
            self._queue.add(record.key)

    async def _process(self, name: str) -> None:
        if await self._write(name):
            self._queue.slow_down(name)

    async def _write(self, name: str) -> bool:
        """Create, update or delete the API service; return whether that was necessary."""
        desired, written = self._desired.get(name), False

        def decide(current: Record | None) -> Outcome:
            nonlocal written
            outcome: Outcome = Keep()
            if desired is not None:
                outcome = self._settle(desired, current)
            elif current is not None and self._is_due(objects.decode(current.data)):
                outcome = Remove(without_revision(current.data))
            written = not isinstance(outcome, Keep)
            return outcome

        try:
            await self._store.update(self._collection, name, decide)
        except LookupError:
            return False  # Deleted since it was queued.
        return written

    def _stored(self) -> Collection:
        return self._store.collection(self._collection)

    def _settle(self, desired: Object, current: Record | None) -> Outcome:
        if current is None:
            metadata = {**desired["metadata"], "uid": objects.new_uid(), "creationTimestamp": objects.now()}
            return Put(objects.encode_for_store({**desired, "metadata": metadata, "status": local_status()}))
        obj: Object = objects.decode(current.data)
        if not self._differs(obj, desired):
            return Keep()
        obj["spec"] = desired["spec"]
        obj.setdefault("status", local_status())
        return Put(objects.encode_for_store(obj))

    def _differs(self, obj: Object, desired: Object) -> bool:
        managed = (obj["metadata"].get("labels") or {}).get(self._label) in _MANAGED_OURS
        return managed and obj["spec"] != desired["spec"]

    def _is_due(self, obj: Object) -> bool:
        """Return whether *obj*, an API service that this server does not register, must be deleted."""
        managed = (obj["metadata"].get("labels") or {}).get(self._label)
        due = managed == _FOLLOWED or (managed == _MANAGED and not self._shares_store)
        return due and is_local(obj)
