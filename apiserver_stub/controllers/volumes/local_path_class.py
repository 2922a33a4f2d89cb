"""The default storage class ``local-path``, whose volumes are directories of the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.ensure import ensure
from apiserver_stub.controllers.volumes.writes import annotate
from apiserver_stub.scheduling.volume_matching import WAIT_FOR_FIRST_CONSUMER, annotations_of
from apiserver_stub.storage import Keep, Outcome, Put, Record
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

CLASS = "local-path"
_NAMESPACES = "core/namespaces"


def provisioner_name(identity: Identity) -> str:
    """Return the name of the provisioner in storage classes."""
    return identity.label("local-path", "nodeagent")


async def ensure_local_path_class(store: Store, identity: Identity) -> None:
    """Create the storage class, unless the cluster has or had one.

    An annotation of the system namespace records that it was created, so that it stays deleted once it is deleted.

    :raises StoreUnavailable: the write could not be made durable.
    """
    marker, classes = (
        identity.label("default-storage-class", "nodeagent"),
        identity.group("storage") + "/storageclasses",
    )
    namespace = store.collection(_NAMESPACES).get(identity.system_namespace)
    if namespace is None or marker in annotations_of(objects.decode(namespace.data)):
        return
    if not store.collection(classes).select():
        await ensure(store, classes, _storage_class(identity))

    def mark(current: Record | None) -> Outcome:
        if current is None:
            raise LookupError(identity.system_namespace)
        obj: Object = objects.decode(current.data)
        if marker in annotations_of(obj):
            return Keep()
        annotate(obj, marker, "created")
        return Put(objects.encode_for_store(obj))

    await store.update(_NAMESPACES, identity.system_namespace, mark)


def _storage_class(identity: Identity) -> Object:
    return {
        "kind": "StorageClass",
        "apiVersion": identity.group("storage") + "/v1",
        "metadata": {"name": CLASS, "annotations": {identity.label("is-default-class", "storageclass"): "true"}},
        "provisioner": provisioner_name(identity),
        "reclaimPolicy": "Delete",
        "volumeBindingMode": WAIT_FOR_FIRST_CONSUMER,
        "allowVolumeExpansion": True,
    }
