"""Changes of stored objects by controllers: applied to the current state of the object that a controller has seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.storage import Keep, Outcome, Put, Record
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.storage import Store


class Changed(Struct, frozen=True):
    """Result of a change.

    :ivar obj: the object, changed or not.
    :ivar applied: whether the change applied to its current state.
    :ivar revision: revision of the stored object.
    """

    obj: Object
    applied: bool
    revision: int


def put(obj: Object, _before: Object) -> Outcome:
    """Store *obj*."""
    return Put(objects.encode_for_store(obj))


async def change_object(
    store: Store,
    collection: str,
    seen: Object,
    edit: Callable[[Object], bool | None],
    outcome: Callable[[Object, Object], Outcome] = put,
) -> Changed | None:
    """Apply *edit* to the current state of an object; return ``None`` if the object was deleted.

    :param seen: the object as seen by the controller; another object with its name is not changed.
    :param edit: changes its argument; an object for which it returns ``False`` is not stored.
    :param outcome: called with the changed object and the one before, if they differ.
    """
    metadata = seen["metadata"]
    obj: Object = {}
    applied = False

    def decide(current: Record | None) -> Outcome:
        nonlocal obj, applied
        if current is None:
            raise LookupError(metadata["name"])
        obj = objects.decode(current.data)
        if obj["metadata"].get("uid") != metadata.get("uid"):
            raise LookupError(metadata["name"])
        before = objects.clone(obj)
        applied = edit(obj) is not False
        return Keep() if not applied or obj == before else outcome(obj, before)

    try:
        key = objects.key_of(metadata.get("namespace", ""), metadata["name"])
        record = await store.update(collection, key, decide)
    except LookupError:
        return None
    return Changed(obj, applied, record.revision)
