"""Owner references of controllers: adoption of objects that a selector selects, and release of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.views import View

if TYPE_CHECKING:
    from apiserver_stub.controllers.object_index import ObjectIndex
    from apiserver_stub.controllers.object_writer import ObjectWriter
    from apiserver_stub.kinds.registry import Resource
    from nodeagent.base.selectors import LabelSelector


def controller_ref(owner: Object) -> Object:
    """Return the reference of an object that *owner* manages."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


class Claims:
    """Claims of the objects of *resource* by the owners of one kind."""

    def __init__(self, index: ObjectIndex, writer: ObjectWriter, resource: Resource) -> None:
        self._index, self._writer, self._resource = index, writer, resource

    async def claim(
        self, owner: Object, selector: LabelSelector, is_concerned: Callable[[Any], bool] = lambda view: True
    ) -> list[Any]:
        """Return the objects that *owner* manages, after it has adopted and released objects by its *selector*.

        Objects that are being deleted are not adopted, and an owner that is being deleted adopts none.

        :param is_concerned: return whether an object may be adopted or released; others are not returned.
        """
        metadata = owner["metadata"]
        claimed = []
        for view in self._index.owned(self._resource.storage, metadata["uid"]):
            if not is_concerned(view):
                continue
            if selector.matches(view.metadata.labels):
                claimed.append(view)
            elif "deletionTimestamp" not in metadata:
                await self._release(owner, view)
        if "deletionTimestamp" in metadata:
            return claimed
        for view in self._index.orphans(self._resource.storage, metadata["namespace"]):
            if view.deleting or not is_concerned(view) or not selector.matches(view.metadata.labels):
                continue
            if await self._adopt(owner, view):
                claimed.append(view)
        return claimed

    async def _adopt(self, owner: Object, view: View) -> bool:
        reference = controller_ref(owner)

        def edit(obj: Object) -> None:
            references = obj["metadata"].get("ownerReferences") or []
            if not any(item.get("controller") for item in references) and "deletionTimestamp" not in obj["metadata"]:
                others = [item for item in references if item.get("uid") != reference["uid"]]
                obj["metadata"]["ownerReferences"] = [*others, reference]

        adopted = await self._writer.change(self._resource, seen(view), edit)
        return adopted is not None and reference in (adopted["metadata"].get("ownerReferences") or ())

    async def _release(self, owner: Object, view: View) -> None:
        uid = owner["metadata"]["uid"]

        def edit(obj: Object) -> None:
            references = obj["metadata"].get("ownerReferences") or []
            left = [item for item in references if item.get("uid") != uid]
            if left:
                obj["metadata"]["ownerReferences"] = left
            else:
                obj["metadata"].pop("ownerReferences", None)

        await self._writer.change(self._resource, seen(view), edit)


def seen(view: View) -> Object:
    """Return name, namespace and UID of *view* in the form of an object."""
    metadata = view.metadata
    return {"metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}}
