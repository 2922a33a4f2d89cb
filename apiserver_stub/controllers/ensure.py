"""Creation of objects that always exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.storage import Keep, Outcome, Put, Record

if TYPE_CHECKING:
    from apiserver_stub.storage import Store


async def ensure(store: Store, collection: str, obj: Object) -> None:
    """Create *obj* unless an object with its name exists, even one that cannot be read.

    :raises StoreUnavailable: the write could not be made durable.
    :raises StoreRejected: the store rejects the object.
    """
    metadata = obj["metadata"]
    key = objects.key_of(metadata.get("namespace", ""), metadata["name"])
    if store.collection(collection).exists(key):
        return
    metadata |= {"uid": objects.new_uid(), "creationTimestamp": objects.now()}

    def decide(current: Record | None) -> Outcome:
        return Put(objects.encode_for_store(obj)) if current is None else Keep()

    await store.update(collection, key, decide)
