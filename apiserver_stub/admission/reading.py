"""What plugins look up: stored objects, decoded, and lists of them that are read again only after a change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.storage import Store

ALL_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


class Reader:
    """Reads the collections of a store; what it returns may not be changed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lists: dict[tuple[str, str], tuple[int, list[Object]]] = {}

    def find(self, collection: str, name: str, namespace: str = "") -> Object | None:
        """Return one object, ``None`` when there is none."""
        record = self.store.collection(collection).get(objects.key_of(namespace, name))
        return objects.decode(record.data) if record is not None else None

    def pods(self, namespace: str) -> list[Object]:
        """Return the pods of *namespace*, read for this once."""
        return [objects.decode(record.data) for record in self.store.collection("core/pods").view(f"{namespace}/")]

    def every(self, collection: str, namespace: str = "") -> list[Object]:
        """Return all objects, or those of a namespace; meant for collections that seldom change."""
        found = self.store.collection(collection)
        kept = self._lists.get((collection, namespace))
        if kept is None or kept[0] != found.end:
            records = found.select(f"{namespace}/" if namespace else "")
            kept = found.end, [objects.decode(record.data) for record in records]
            self._lists[collection, namespace] = kept
        return kept[1]

    def namespace(self, name: str) -> Object:
        """Return a namespace; without one an empty object."""
        return self.find("core/namespaces", name) or {}


def labels_of(obj: Object) -> dict[str, str]:
    """Return the labels of *obj*, to be read."""
    return (obj.get("metadata") or {}).get("labels") or {}


def annotations_of(obj: Object) -> dict[str, str]:
    """Return the annotations of *obj*, to be read."""
    return (obj.get("metadata") or {}).get("annotations") or {}


def containers(spec: Object, *kinds: str) -> Iterator[tuple[str, Object]]:
    """Yield the containers of a pod with where they are (``spec.containers[0]``)."""
    for kind in kinds or ALL_CONTAINERS:
        for index, container in enumerate(spec.get(kind) or ()):
            if isinstance(container, dict):
                yield f"spec.{kind}[{index}]", container


def secret_names(spec: Object) -> Iterator[tuple[str, Object, str]]:
    """Yield kind of container, container and secret for every secret that the environment of a container needs."""
    yield from _environment(spec, "secretKeyRef", "secretRef")


def config_map_names(spec: Object) -> Iterator[tuple[str, Object, str]]:
    """Yield the same for config maps."""
    yield from _environment(spec, "configMapKeyRef", "configMapRef")


def volume_references(spec: Object, member: str, source: str) -> Iterator[Any]:
    """Yield the *source* of every volume, projected ones included (``secret``, ``configMap``)."""
    for volume in spec.get("volumes") or ():
        if volume.get(source) is not None:
            yield volume[source]
        for projected in (volume.get("projected") or {}).get("sources") or ():
            if projected.get(member) is not None:
                yield projected[member]


def _environment(spec: Object, key_member: str, from_member: str) -> Iterator[tuple[str, Object, str]]:
    for kind in ALL_CONTAINERS:
        for container in spec.get(kind) or ():
            for variable in container.get("env") or ():
                if reference := (variable.get("valueFrom") or {}).get(key_member):
                    yield kind, container, reference.get("name") or ""
            for group in container.get("envFrom") or ():
                if reference := group.get(from_member):
                    yield kind, container, reference.get("name") or ""
