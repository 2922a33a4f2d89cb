"""Keys of objects in the storage backend: ``<prefix>/<resource>/<namespace>/<name>``, as kube-apiserver."""

from __future__ import annotations

import posixpath
from collections.abc import Collection as Names
from collections.abc import Iterable, Mapping
from typing import Protocol


class StoredResource(Protocol):
    """Properties of a resource on which its keys depend."""

    @property
    def plural(self) -> str: ...

    @property
    def verbs(self) -> tuple[str, ...]: ...

    @property
    def storage(self) -> str:
        """Collection of the objects."""

    @property
    def storage_key(self) -> str:
        """Directory of the keys, if it is not the plural."""


class Layout:
    """Mapping between keys of collections and full keys.

    :param directories: directory below *prefix* by collection; the plural of a collection that is absent.
    :param includes_custom: custom resources are included, whose directory is the name of their collection: their group,
        which is a domain, and the plural.
    """

    def __init__(self, prefix: str, directories: Mapping[str, str], *, includes_custom: bool = False) -> None:
        self.prefix = posixpath.join("/", prefix).rstrip("/")
        self._includes_custom = includes_custom
        self._directories = dict(directories)
        self._collections = {directory: name for name, directory in directories.items()}

    @classmethod
    def of(cls, prefix: str, resources: Iterable[StoredResource]) -> Layout:
        """Return the layout for *resources*."""
        directories: dict[str, str] = {}
        for item in resources:
            if "get" in item.verbs:  # Reviews are never stored.
                directories[item.storage] = item.storage_key or item.plural
        directories["core/masterleases"] = "masterleases"  # Addresses of the running servers; not served.
        directories["core/quotacharges"] = "quotacharges"  # Of requests in progress; not served.
        directories["core/ranges"] = "ranges"  # Allocated Service IPs and ports; not served.
        return cls(prefix, directories, includes_custom=True)

    @property
    def collections(self) -> list[str]:
        return list(self._directories)

    def only(self, names: Names[str]) -> Layout:
        """Return the layout of only *names*."""
        return Layout(self.prefix, {name: directory for name, directory in self._directories.items() if name in names})

    def without(self, names: Names[str]) -> Layout:
        """Return the layout without *names*."""
        left = {name: directory for name, directory in self._directories.items() if name not in names}
        return Layout(self.prefix, left, includes_custom=self._includes_custom)

    def directory(self, collection: str) -> str:
        """Return the prefix of the full keys of *collection*."""
        directory = self._directories.get(collection)
        if directory is None:
            group, _, plural = collection.rpartition("/")
            directory = collection if self._includes_custom and "." in group else plural
        return f"{self.prefix}/{directory}/"

    def full_key(self, collection: str, key: str) -> str:
        """Return the full key."""
        return self.directory(collection) + key

    def find(self, full_key: str) -> tuple[str, str] | None:
        """Return collection and key of *full_key*, ``None`` if no served resource has it."""
        if not full_key.startswith(self.prefix + "/"):
            return None
        first, _, rest = full_key[len(self.prefix) + 1 :].partition("/")
        if (name := self._collections.get(first)) is not None:
            return (name, rest) if rest else None
        second, _, rest = rest.partition("/")
        name = self._collections.get(f"{first}/{second}")
        if name is None and self._includes_custom and "." in first:
            name = f"{first}/{second}"
        return (name, rest) if name is not None and rest else None
