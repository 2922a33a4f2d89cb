"""Histories of templates: ControllerRevisions of StatefulSets and DaemonSets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.workloads.owners import Claims, controller_ref
from apiserver_stub.controllers.workloads.semantic import same, short_hash

if TYPE_CHECKING:
    from apiserver_stub.controllers.object_index import ObjectIndex
    from apiserver_stub.controllers.object_writer import ObjectWriter
    from apiserver_stub.storage import Store
    from nodeagent.base.selectors import LabelSelector

REVISIONS = "apps/controllerrevisions"
HASH_LABEL = "controller-revision-hash"


class History:
    """Revisions of the owners of one controller; their data is a patch of the owner, as kubectl expects."""

    def __init__(self, store: Store, index: ObjectIndex, writer: ObjectWriter, hash_label: str) -> None:
        self._store, self._writer, self._hash_label = store, writer, hash_label
        self._resource = writer.resource("apps", "v1", "controllerrevisions")
        self._claims = Claims(index, writer, self._resource)

    async def read(self, owner: Object, selector: LabelSelector) -> list[Object]:
        """Return the revisions of *owner*, the oldest first."""
        found = []
        for view in await self._claims.claim(owner, selector):
            record = self._store.collection(REVISIONS).get(view.key)
            if record is not None:
                found.append(self._resource.read(record))
        return sorted(found, key=_order)

    async def current(self, owner: Object, revisions: list[Object]) -> Object:
        """Return the revision of the template of *owner*, with the highest number; it is created if there is none.

        :param revisions: all revisions, the oldest first; a new one is added.
        :raises ApiError: it cannot be created, or its name is used by another template.
        """
        data = {"spec": {"template": {"$patch": "replace", **objects.clone(owner["spec"].get("template") or {})}}}
        highest = max((item.get("revision") or 0 for item in revisions), default=0)
        found = next((item for item in reversed(revisions) if same(item.get("data"), data)), None)
        if found is None:
            created = await self._create(owner, data, highest + 1)
            revisions.append(created)
            return created
        if (found.get("revision") or 0) == highest:
            return found

        def edit(obj: Object) -> None:
            obj["revision"] = highest + 1

        updated = await self._writer.change(self._resource, found, edit) or found
        revisions.remove(found)
        revisions.append(updated)
        return updated

    async def _create(self, owner: Object, data: Object, number: int) -> Object:
        spec, metadata = owner["spec"], owner["metadata"]
        digest = short_hash(data, (owner.get("status") or {}).get("collisionCount"))
        labels = (spec.get("template") or {}).get("metadata") or {}
        new: Object = {
            "metadata": {
                "name": f"{metadata['name']}-{digest}",
                "namespace": metadata["namespace"],
                "labels": {**(labels.get("labels") or {}), self._hash_label: digest},
                "annotations": metadata.get("annotations") or {},
                "ownerReferences": [controller_ref(owner)],
            },
            "data": data,
            "revision": number,
        }
        try:
            return await self._writer.create(self._resource, new)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                await self._count_collision(owner)
            raise

    async def _count_collision(self, owner: Object) -> None:
        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["collisionCount"] = (status.get("collisionCount") or 0) + 1

        group, _, version = owner["apiVersion"].rpartition("/")
        resource = self._writer.resource(group, version, f"{owner['kind'].lower()}s")
        await self._writer.change(resource, owner, edit)

    async def delete_old(self, revisions: Sequence[Object], live: Iterable[str], limit: int) -> None:
        """Delete the oldest revisions beyond *limit* that are not named in *live*."""
        names = set(live)
        unused = [item for item in revisions if item["metadata"]["name"] not in names]
        for item in unused[: max(0, len(unused) - limit)]:
            await self._writer.delete(self._resource, item["metadata"])


def hash_of(revision: Object, hash_label: str) -> str:
    """Return the hash of *revision*."""
    labels = revision["metadata"].get("labels") or {}
    return str(labels.get(hash_label) or revision["metadata"]["name"].rpartition("-")[2])


def template_of(revision: Object) -> Object:
    """Return the pod template in *revision*."""
    template = ((revision.get("data") or {}).get("spec") or {}).get("template") or {}
    return {name: value for name, value in objects.clone(template).items() if name != "$patch"}


def _order(revision: Object) -> tuple[int, str, str]:
    metadata = revision["metadata"]
    return revision.get("revision") or 0, metadata.get("creationTimestamp") or "", metadata["name"]
