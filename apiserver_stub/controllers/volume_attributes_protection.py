"""Protection controller of volume attributes classes: remove deleted ones once no volume or claim refers to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.admission.plugins.storage_object_in_use_protection import protection_finalizers
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from nodeagent.base.aio import Clock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_VOLUMES, _CLAIMS = "core/persistentvolumes", "core/persistentvolumeclaims"
_CLASSES = "volumeattributesclasses"
_PATHS = (
    ("spec", "volumeAttributesClassName"),
    ("status", "currentVolumeAttributesClassName"),
    ("status", "modifyVolumeStatus", "targetVolumeAttributesClassName"),
)
_REFERS = b"olumeAttributesClassName"


async def release_attributes_classes(store: Store, identity: Identity) -> None:
    """Run the protection controller of volume attributes classes until cancelled."""
    await AttributesClassProtection(store, identity).run()


class AttributesClassProtection:
    """Controller of the protection finalizer; the users of each class are indexed."""

    def __init__(self, store: Store, identity: Identity, clock: Clock | None = None) -> None:
        self._store, self._finalizer = store, protection_finalizers(identity)[_CLASSES]
        self._collection = f"{identity.group('storage')}/{_CLASSES}"
        self._queue: WorkQueue[str] = WorkQueue("attributes-class-protection", clock)
        self._classes: dict[tuple[str, str], frozenset[str]] = {}
        self._users: dict[str, set[tuple[str, str]]] = {}

    async def run(self) -> None:
        feed = ChangeFeed(self._store, [_VOLUMES, _CLAIMS, self._collection], self)
        await run_controller(feed, self._queue, self._process)

    def reset(self) -> None:
        self._classes.clear()
        self._users.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if collection == self._collection:
            if b'"deletionTimestamp"' in record.data:
                self._queue.add(record.key)
        else:
            refers = _REFERS in record.data
            names = classes_of(objects.decode(record.data)) if refers else frozenset()
            self._use((collection, record.key), names)

    def remove(self, collection: str, record: Record) -> None:
        if collection != self._collection:
            self._use((collection, record.key), frozenset())

    def _use(self, user: tuple[str, str], names: frozenset[str]) -> None:
        before = self._classes.pop(user, frozenset())
        if names:
            self._classes[user] = names
        for name in names - before:
            self._users.setdefault(name, set()).add(user)
        for name in before - names:
            users = self._users[name]
            users.discard(user)
            if not users:
                del self._users[name]
                self._queue.add(name)

    async def _process(self, name: str) -> None:
        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise LookupError(name)
            obj: Object = objects.decode(current.data)
            metadata = obj["metadata"]
            finalizers = metadata.get("finalizers") or []
            if "deletionTimestamp" not in metadata or self._finalizer not in finalizers or name in self._users:
                return Keep()
            metadata["finalizers"] = [item for item in finalizers if item != self._finalizer]
            data = objects.encode_for_store(obj)
            return Put(data) if metadata["finalizers"] else Remove(data)

        try:
            await self._store.update(self._collection, name, decide)
        except LookupError:
            return  # Deleted since it was queued.


def classes_of(obj: Object) -> frozenset[str]:
    """Return the names of the volume attributes classes to which a volume or a claim refers."""
    return frozenset(name for path in _PATHS if (name := dig(obj, path)))
