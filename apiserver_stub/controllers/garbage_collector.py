"""Garbage collector: delete objects whose owners no longer exist, and complete foreground and orphaning deletions.

The graph only selects the objects to process; each decision is made on their current state.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.internal_requests import delete_admitted
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.ownership_graph import Location, Node, OwnershipGraph
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from apiserver_stub.verbs.allocation import release
from apiserver_stub.verbs.delete import FOREGROUND, ORPHAN
from nodeagent.base.aio import Clock

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry, Resource
    from apiserver_stub.verbs.context import VerbContext
    from nodeagent.base.identity import Identity

_NAME = "generic-garbage-collector"
_AT_ONCE = 20
_RELEASED_AT_ONCE = 50
_OWNED, _DELETED = b'"ownerReferences":', b'"deletionTimestamp":'
_FINALIZERS = (FOREGROUND.encode(), ORPHAN.encode())

References = list[Object]


async def collect_garbage(context: VerbContext, registry: Registry, identity: Identity) -> None:
    """Run the garbage collector until cancelled."""
    await GarbageCollector(context, registry, identity).run()


class GarbageCollector:
    """Controller of all objects that have owners or dependents."""

    def __init__(
        self, context: VerbContext, registry: Registry, identity: Identity, clock: Clock | None = None
    ) -> None:
        self._context, self._identity = context, identity
        self._registry = registry
        self._resources: dict[str, Resource] = {}
        """Resource by collection; those that are no longer served are included as long as they have objects."""
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._feed: ChangeFeed | None = None
        self._read_registry()
        self._graph = OwnershipGraph()
        self._queue: WorkQueue[Location] = WorkQueue("garbage-collector", clock)

    async def run(self) -> None:
        """Collect until cancelled."""
        with self._registry.listening(self._read_registry):
            self._feed = ChangeFeed(self._context.store, list(self._resources), self)
            await run_controller(self._feed, self._queue, self._process, at_once=_AT_ONCE)

    def _read_registry(self) -> None:
        """Follow the resources that are served now."""
        found = [item for item in self._registry if "delete" in item.verbs and not item.ttl]
        store = self._context.store
        left = {name: item for name, item in self._resources.items() if len(store.collection(name))}
        self._resources = left | {item.storage: item for item in reversed(found)}
        self._kinds = {(item.group, item.kind): item for item in found}
        if self._feed is not None:
            self._feed.follow(store.collection(name) for name in self._resources)

    # Changes

    def reset(self) -> None:
        self._graph.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        location, data = (collection, record.key), record.data
        deleted = _DELETED in data and any(name in data for name in _FINALIZERS)
        if deleted or _OWNED in data or location in self._graph:
            self._add(self._graph.update(location, _node(objects.decode(data)["metadata"])))

    def remove(self, collection: str, record: Record) -> None:
        uid = objects.decode(record.data)["metadata"]["uid"]
        self._add(self._graph.remove((collection, record.key), uid))

    def _add(self, locations: Iterable[Location]) -> None:
        for location in locations:
            self._queue.add(location)

    # Objects

    async def _process(self, location: Location) -> None:
        with contextlib.suppress(_Gone):
            await self._process_object(location)

    async def _process_object(self, location: Location) -> None:
        obj = self._get(location)
        if obj is None:
            return
        metadata = obj["metadata"]
        node = _node(metadata)
        if node.orphaning:
            await self._release_dependents(location, node.uid)
        elif node.deleting_dependents:
            await self._delete_dependents(location, node.uid)
        elif "deletionTimestamp" not in metadata and node.owners:
            await self._delete_without_owners(location, metadata)

    async def _delete_without_owners(self, location: Location, metadata: Object) -> None:
        """Delete the object if it has no solid owner; otherwise remove its references to missing owners."""
        uid, namespace = metadata["uid"], metadata.get("namespace") or ""
        solid, dangling, waiting = [], set(), set()
        for reference in metadata["ownerReferences"]:
            if not self._is_resolvable(reference, namespace):
                return
            owner = self._owner(reference, namespace)
            if owner is None:
                dangling.add(reference.get("uid"))
            elif (node := _node(owner)).deleting_dependents and not node.orphaning:
                waiting.add(reference.get("uid"))
            else:
                solid.append(reference)
        if solid:
            if dropped := dangling | waiting:
                await self._set_references(location, uid, lambda found: _without(found, dropped))
        elif waiting and self._graph.has_dependents(uid):
            if self._graph.has_dependent_deleting_dependents(uid):
                await self._set_references(location, uid, _unblocked)
            await self._delete(location, uid, "Foreground")
        else:
            finalizers = metadata.get("finalizers") or ()
            policy = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
            await self._delete(location, uid, policy)

    async def _delete_dependents(self, location: Location, uid: str) -> None:
        """Queue the dependents that block the deletion of the object, and finalize it when there are none."""
        blocking = self._graph.blocking_dependents(uid)
        if not blocking:
            await self._remove_finalizer(location, uid, FOREGROUND)
            return
        for dependent in blocking:
            node = self._graph.node(dependent)
            if node is not None and not node.deleting_dependents:
                self._queue.add(dependent)
        if self._graph.is_deadlocked(uid):
            # Upstream unblocks a cycle only while one of its objects is not deleted yet, so two that are deleted
            # together wait forever.
            await self._set_references(location, uid, _unblocked)

    async def _release_dependents(self, location: Location, uid: str) -> None:
        dependents = self._graph.dependents(uid)
        for start in range(0, len(dependents), _RELEASED_AT_ONCE):
            batch = dependents[start : start + _RELEASED_AT_ONCE]
            await asyncio.gather(*(self._release(dependent, uid) for dependent in batch))
        await self._remove_finalizer(location, uid, ORPHAN)

    async def _release(self, dependent: Location, uid: str) -> None:
        node = self._graph.node(dependent)
        if node is not None:
            with contextlib.suppress(_Gone):
                await self._set_references(dependent, node.uid, lambda found: _without(found, {uid}))

    # Owners

    def _is_resolvable(self, reference: Object, namespace: str) -> bool:
        """Return whether the owner can be looked up; objects with an owner of an unknown kind are kept."""
        resource = self._kind_of(reference)
        return resource is not None and (bool(namespace) or not resource.namespaced)

    def _owner(self, reference: Object, namespace: str) -> Object | None:
        """Return the metadata of the owner, ``None`` when it does not exist."""
        resource = self._kind_of(reference)
        assert resource is not None
        owner = self._get((resource.storage, resource.key(namespace, reference.get("name", ""))))
        if owner is None or owner["metadata"]["uid"] != reference.get("uid"):
            return None
        metadata: Object = owner["metadata"]
        return metadata

    def _kind_of(self, reference: Object) -> Resource | None:
        group = reference.get("apiVersion", "").rpartition("/")[0]
        return self._kinds.get((group, reference.get("kind", "")))

    # The store

    def _get(self, location: Location) -> Object | None:
        storage, key = location
        record = self._context.store.collection(storage).get(key)
        return None if record is None else objects.decode(record.data)

    def _resource(self, storage: str) -> Resource:
        """Return the resource of a collection.

        :raises _Gone: it is no longer served, and has no objects.
        """
        found = self._resources.get(storage)
        if found is None:
            raise _Gone
        return found

    async def _delete(self, location: Location, uid: str, policy: str) -> None:
        storage, key = location
        options: Object = {
            "gracePeriodSeconds": None,
            "preconditions": {"uid": uid},
            "dryRun": False,
            "propagationPolicy": policy,
        }
        try:
            await delete_admitted(self._context, self._resource(storage), key, options, self._identity, _NAME)
        except ApiError as error:
            if error.code != 404:
                raise

    async def _set_references(self, location: Location, uid: str, edit: Callable[[References], References]) -> None:
        """Change the owner references of the object.

        :raises _Gone: it is deleted.
        """

        def change(metadata: Object) -> None:
            _set(metadata, "ownerReferences", edit(metadata.get("ownerReferences", [])))

        await self._change(location, uid, change)

    async def _remove_finalizer(self, location: Location, uid: str, finalizer: str) -> None:
        """Remove *finalizer*, and delete the object if no other finalizer or grace period delays that.

        :raises _Gone: it is deleted.
        """

        def change(metadata: Object) -> None:
            _set(metadata, "finalizers", [name for name in metadata.get("finalizers") or () if name != finalizer])

        removed = await self._change(location, uid, change, removes=True)
        resource = self._resource(location[0])
        if removed is not None and resource.strategy.reserves:
            await release(self._context.store, resource, removed)

    async def _change(
        self, location: Location, uid: str, change: Callable[[Object], None], *, removes: bool = False
    ) -> Object | None:
        """Update the metadata of the object; with *removes*, return the object if the update deletes it."""
        storage, key = location
        resource = self._resource(storage)
        removed: Object | None = None

        def decide(current: Record | None) -> Outcome:
            nonlocal removed
            removed = None
            if current is None:
                raise _Gone
            obj: Object = objects.decode(current.data)
            if obj["metadata"]["uid"] != uid:
                raise _Gone
            metadata = obj["metadata"]
            before = dict(metadata)
            change(metadata)
            if metadata == before:
                return Keep()
            data = objects.encode_for_store(obj)
            waits = "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds")
            if removes and waits and not metadata.get("finalizers") and not resource.strategy.lingers(obj):
                removed = obj
                return Remove(data)
            return Put(data)

        await self._context.store.update(storage, key, decide)
        return removed


class _Gone(Exception):
    """The object is deleted, or another one has its name."""


def _node(metadata: Object) -> Node:
    owners: dict[str, bool] = {}
    for reference in metadata.get("ownerReferences") or ():
        uid = reference.get("uid") or ""
        owners[uid] = owners.get(uid, False) or bool(reference.get("blockOwnerDeletion"))
    finalizers = (metadata.get("finalizers") or ()) if "deletionTimestamp" in metadata else ()
    return Node(metadata["uid"], owners, ORPHAN in finalizers, FOREGROUND in finalizers)


def _without(references: References, uids: Collection[str | None]) -> References:
    return [item for item in references if item.get("uid") not in uids]


def _unblocked(references: References) -> References:
    return [{**item, "blockOwnerDeletion": False} if item.get("blockOwnerDeletion") else item for item in references]


def _set(metadata: Object, name: str, values: Sequence[object]) -> None:
    if values:
        metadata[name] = values
    else:
        metadata.pop(name, None)
