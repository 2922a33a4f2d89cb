"""Writes of a controller: objects are created and deleted as by clients, and changed only if they are the seen ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.internal_requests import create_object, delete_object
from apiserver_stub.controllers.object_changes import change_object
from apiserver_stub.storage import Outcome, Put, Remove
from apiserver_stub.verbs.preparation import finished

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry, Resource
    from apiserver_stub.verbs.context import VerbContext
    from nodeagent.base.identity import Identity


class ObjectWriter:
    """Writer of the objects of one controller.

    It records the revisions of its writes, so that the controller decides on a state that includes them
    (:meth:`settled`); upstream's controllers count expected changes instead.
    """

    def __init__(self, context: VerbContext, registry: Registry, identity: Identity, controller: str) -> None:
        self._context, self._registry, self._identity = context, registry, identity
        self._controller = controller
        self._revisions: dict[str, int] = {}

    def resource(self, group: str, version: str, plural: str) -> Resource:
        """Return a served resource.

        :raises LookupError: it is not served.
        """
        found = self._registry.find(group, version, plural)
        if found is None:
            raise LookupError(f"{plural} of {group}/{version}")
        return found

    async def settled(self) -> None:
        """Wait until the writes of the controller are visible to readers of the store."""
        store = self._context.store
        for collection, revision in list(self._revisions.items()):
            if store.revision_of(collection) < revision:
                await store.catch_up(collection, revision)
            self._revisions.pop(collection, None)

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Create *obj* and return it as stored.

        :raises ApiError: the object exists, is invalid, or is rejected by an admission plugin.
        """
        record = await create_object(self._context, resource, obj, self._identity, self._controller)
        self._note(resource.storage, record.revision)
        created: Object = objects.decode(record.data)
        return created

    async def delete(
        self,
        resource: Resource,
        metadata: Object,
        propagation: str = "Background",
        *,
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete the object with the name and UID of *metadata*; return ``False`` if it was deleted already.

        :param grace_seconds: grace period; by default that of the object.
        :raises ApiError: it cannot be deleted.
        """
        try:
            await delete_object(
                self._context,
                resource,
                {"metadata": metadata},
                self._identity,
                self._controller,
                propagation=propagation,
                grace_seconds=grace_seconds,
            )
        except ApiError as error:
            if error.code in (404, 409):  # Deleted, or replaced by another object of its name.
                return False
            raise
        self._note(resource.storage, self._context.store.revision_of(resource.storage))
        return True

    async def change(self, resource: Resource, seen: Object, edit: Callable[[Object], None]) -> Object | None:
        """Apply *edit* to the current state of an object and return the result, ``None`` if the object was deleted.

        The generation counts the change if it concerns the spec. An object whose deletion waits for the finalizer that
        *edit* removes is deleted.

        :param seen: the object as seen by the controller; another object with its name is not changed.
        :param edit: changes its argument, or leaves it as it is if the change no longer applies.
        """

        def outcome(obj: Object, before: Object) -> Outcome:
            if "generation" in before["metadata"] and obj.get("spec") != before.get("spec"):
                obj["metadata"]["generation"] = objects.next_generation(before["metadata"])
            data = objects.encode_for_store(obj)
            return Remove(data) if finished(resource.strategy, obj, before) else Put(data)

        changed = await change_object(self._context.store, resource.storage, seen, edit, outcome)
        if changed is None:
            return None
        self._note(resource.storage, changed.revision)
        changed.obj["metadata"]["resourceVersion"] = str(changed.revision)
        return changed.obj

    def _note(self, collection: str, revision: int) -> None:
        self._revisions[collection] = max(revision, self._revisions.get(collection, 0))
