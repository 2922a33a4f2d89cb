"""Listers: decoded stored objects, and lists of them that are decoded again only after a change."""

from __future__ import annotations

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.storage import Store

MOST_LISTS = 1024
"""Cached lists; most are those of a namespace, which may be deleted."""


class Lister:
    """Decoded objects of a store; the returned objects must not be modified."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lists: dict[tuple[str, str], tuple[int, list[Object]]] = {}

    def find(self, collection: str, name: str, namespace: str = "") -> Object | None:
        """Return one object, or ``None``."""
        record = self.store.collection(collection).get(objects.key_of(namespace, name))
        return objects.decode(record.data) if record is not None else None

    def pods(self, namespace: str) -> list[Object]:
        """Return the pods of *namespace*, decoded for each call."""
        return [objects.decode(record.data) for record in self.store.collection("core/pods").view(f"{namespace}/")]

    def every(self, collection: str, namespace: str = "") -> list[Object]:
        """Return all objects, or those of a namespace.

        The list is cached until the collection changes, so this is for collections that seldom change.
        """
        stored = self.store.collection(collection)
        cached = self._lists.get((collection, namespace))
        if cached is None or cached[0] != stored.end:
            records = stored.select(f"{namespace}/" if namespace else "")
            cached = stored.end, [objects.decode(record.data) for record in records]
            self._lists.pop((collection, namespace), None)
            if len(self._lists) >= MOST_LISTS:
                del self._lists[next(iter(self._lists))]
            self._lists[collection, namespace] = cached
        return cached[1]

    def namespace(self, name: str) -> Object:
        """Return a namespace, or an empty object if it is missing."""
        return self.find("core/namespaces", name) or {}


def labels_of(obj: Object) -> dict[str, str]:
    """Return the labels of *obj*, which must not be modified."""
    return (obj.get("metadata") or {}).get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    """Return the annotations of *obj*, which must not be modified."""
    return (obj.get("metadata") or {}).get("annotations") or {}
