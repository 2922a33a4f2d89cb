"""The garbage collector: objects go with their owners, at once, before them, or not at all (as the deletion asks).

It follows the logs of all collections, so its picture of who owns what costs nothing while nobody owns anything. What
it does is decided again on the objects as they are at that moment; the picture only says where to look.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.objects import Object
from apiserver_stub.status import ApiError
from apiserver_stub.store import Compacted, Keep, Outcome, Put, Record, Remove, StoreUnavailable
from apiserver_stub.verbs.delete import FOREGROUND, ORPHAN, remove
from apiserver_stub.verbs.reserving import give_back

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.resources.registry import Resource

_log = logging.getLogger(__name__)

_BATCH = 500
_RETRY_SECONDS = 1.0
_OWNED, _DELETED = b'"ownerReferences":', b'"deletionTimestamp":'

Place = tuple[str, str]
"""Collection and key of an object."""


async def collect_garbage(server: ApiServer) -> None:
    """Delete what lost its owners and finish deletions that wait for dependents; runs until cancelled."""
    await GarbageCollector(server).run()


class GarbageCollector:
    """Who owns whom, and which places must be looked at."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._resources: dict[str, Resource] = {}
        self._kinds: dict[tuple[str, str], Resource] = {}
        for resource in server.registry:
            if "delete" in resource.verbs and not resource.ttl:
                self._resources.setdefault(resource.storage, resource)
                self._kinds[resource.group, resource.kind] = resource
        self._positions: dict[str, int] = {}
        self._owners: dict[Place, frozenset[str]] = {}
        self._dependents: dict[str, set[Place]] = {}
        self._waiting: dict[str, Place] = {}
        """Objects whose deletion waits for their dependents, by uid; perhaps some more."""
        self._due: dict[Place, None] = {}  # in the order in which they came up

    async def run(self) -> None:
        """Work until cancelled."""
        self._start_over()
        while True:
            failed = await self._work()
            await self._server.changed_since(self._positions, timeout_seconds=_RETRY_SECONDS if failed else None)
            self._read_changes()

    # The picture

    def _start_over(self) -> None:
        self._owners.clear()
        self._dependents.clear()
        self._waiting.clear()
        for storage in self._resources:
            collection = self._server.store.collection(storage)
            self._positions[storage] = collection.end
            for record in collection.select():
                self._see(storage, record)

    def _read_changes(self) -> None:
        try:
            for storage in self._resources:
                collection = self._server.store.collection(storage)
                while changes := collection.read(self._positions[storage], _BATCH):
                    self._positions[storage] += len(changes)
                    for change in changes:
                        if change.type == "DELETED":
                            self._gone(storage, change.record)
                        else:
                            self._see(storage, change.record)
        except Compacted:
            self._start_over()

    def _see(self, storage: str, record: Record) -> None:
        place, data = (storage, record.key), record.data
        if _OWNED in data:
            metadata = objects.decode(data)["metadata"]
            owners = frozenset(owner.get("uid") or "" for owner in metadata.get("ownerReferences") or ())
        else:
            owners = frozenset()
        if owners != self._owners.get(place, frozenset()):
            self._forget(place)
            if owners:
                self._owners[place] = owners
            for uid in owners:
                self._dependents.setdefault(uid, set()).add(place)
        waits = _DELETED in data and (FOREGROUND.encode() in data or ORPHAN.encode() in data)
        if waits:
            self._waiting[objects.decode(data)["metadata"]["uid"]] = place
        if waits or owners:
            self._due[place] = None

    def _gone(self, storage: str, record: Record) -> None:
        place = (storage, record.key)
        for uid in self._forget(place):
            if uid in self._waiting:
                self._due[self._waiting[uid]] = None
        metadata = objects.decode(record.data)["metadata"]
        self._waiting.pop(metadata["uid"], None)
        self._due.update(dict.fromkeys(self._dependents.get(metadata["uid"], ())))

    def _forget(self, place: Place) -> frozenset[str]:
        owners = self._owners.pop(place, frozenset())
        for uid in owners:
            self._dependents[uid].discard(place)
            if not self._dependents[uid]:
                del self._dependents[uid]
                if uid in self._waiting:
                    self._due[self._waiting[uid]] = None
        return owners

    # The work

    async def _work(self) -> bool:
        """Look at every place that is due, until none is; returns whether one has to be tried again."""
        failed: list[Place] = []
        while self._due:
            place = next(iter(self._due))
            del self._due[place]
            try:
                await self._look_at(*place)
            except (ApiError, StoreUnavailable) as error:
                if not isinstance(error, ApiError) or error.code != 404:
                    _log.warning("Garbage is left for now", extra={"place": "/".join(place), "err": error})
                    failed.append(place)
            self._read_changes()
        self._due.update(dict.fromkeys(failed))
        return bool(failed)

    async def _look_at(self, storage: str, key: str) -> None:
        obj = self._get(storage, key)
        if obj is None:
            return
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or ()
        if "deletionTimestamp" in metadata:
            if ORPHAN in finalizers:
                await self._release_dependents(storage, key, metadata["uid"])
                return
            if FOREGROUND in finalizers:
                await self._end_dependents(storage, key, metadata["uid"])
                return
        if metadata.get("ownerReferences"):
            await self._judge(storage, key, obj)

    async def _judge(self, storage: str, key: str, obj: Object) -> None:
        """Delete *obj* if no owner is left for whom it could stay, or drop the references that lead nowhere."""
        metadata = obj["metadata"]
        solid, dangling, waiting = [], [], []
        for reference in metadata["ownerReferences"]:
            owner = self._owner(reference, metadata.get("namespace") or "")
            if owner is None:
                dangling.append(reference)
            elif "deletionTimestamp" in owner and FOREGROUND in (owner.get("finalizers") or ()):
                waiting.append(reference)
            else:
                solid.append(reference)
        if solid:
            if dangling or waiting:
                await self._change(storage, key, metadata["uid"], references=solid)
            return
        if "deletionTimestamp" in metadata:
            return
        policy = "Foreground" if waiting and self._dependents.get(metadata["uid"]) else "Background"
        await self._delete(storage, key, metadata["uid"], policy)

    async def _end_dependents(self, storage: str, key: str, uid: str) -> None:
        """Delete what depends on the object, and let the object go once nothing that it waits for is left."""
        blocked = False
        for place in sorted(self._dependents.get(uid, ())):
            dependent = self._get(*place)
            if dependent is None:
                continue
            references = dependent["metadata"].get("ownerReferences") or ()
            blocked = blocked or any(item.get("uid") == uid and item.get("blockOwnerDeletion") for item in references)
            self._due[place] = None
        if not blocked:
            await self._change(storage, key, uid, finalizer=FOREGROUND)

    async def _release_dependents(self, storage: str, key: str, uid: str) -> None:
        for place in sorted(self._dependents.get(uid, ())):
            dependent = self._get(*place)
            if dependent is not None:
                metadata = dependent["metadata"]
                left = [item for item in metadata.get("ownerReferences") or () if item.get("uid") != uid]
                await self._change(*place, metadata["uid"], references=left)
        await self._change(storage, key, uid, finalizer=ORPHAN)

    def _owner(self, reference: Object, namespace: str) -> Object | None:
        """Return the metadata of the owner, ``None`` when it is gone; of an unknown kind nothing is presumed."""
        group = (reference.get("apiVersion") or "").rpartition("/")[0]
        resource = self._kinds.get((group, reference.get("kind") or ""))
        if resource is None or (resource.namespaced and not namespace):
            return {}
        owner = self._get(resource.storage, resource.key(namespace, reference.get("name") or ""))
        if owner is None or owner["metadata"]["uid"] != reference.get("uid"):
            return None
        metadata: Object = owner["metadata"]
        return metadata

    def _get(self, storage: str, key: str) -> Object | None:
        record = self._server.store.collection(storage).get(key)
        return None if record is None else objects.decode(record.data)

    async def _delete(self, storage: str, key: str, uid: str, policy: str) -> None:
        options: Object = {
            "gracePeriodSeconds": None,
            "preconditions": {"uid": uid},
            "dryRun": False,
            "propagationPolicy": policy,
        }
        await remove(self._server, self._resources[storage], key, key.rpartition("/")[2], options)

    async def _change(
        self, storage: str, key: str, uid: str, *, references: list[Object] | None = None, finalizer: str = ""
    ) -> None:
        """Give the object these owner *references*, or take *finalizer* away from it."""

        resource, gone = self._resources[storage], False
        obj: Object = {}

        def decide(current: Record | None) -> Outcome:
            nonlocal obj, gone
            gone = False
            obj = {} if current is None else objects.decode(current.data)
            if not obj or obj["metadata"]["uid"] != uid:
                raise ApiError(404, "NotFound", f"{storage} {key} is gone")
            metadata = obj["metadata"]
            before = dict(metadata)
            if references is not None:
                _set(metadata, "ownerReferences", references)
            if finalizer:
                _set(metadata, "finalizers", [name for name in metadata.get("finalizers") or () if name != finalizer])
            if metadata == before:
                return Keep()
            data = objects.encode_for_store(obj)
            waits = "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds")
            lingers = metadata.get("finalizers") or resource.strategy.lingers(obj)
            gone = bool(finalizer and waits and not lingers)
            return Remove(data) if gone else Put(data)

        await self._server.store.update(storage, key, decide)
        if gone and resource.strategy.reserves:
            await give_back(self._server.store, resource, obj)


def _set(metadata: Object, name: str, values: Sequence[object]) -> None:
    if values:
        metadata[name] = values
    else:
        metadata.pop(name, None)
