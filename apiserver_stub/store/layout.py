"""Where objects are in a store that is shared: ``<prefix>/<resource>/<namespace>/<name>``, as all its users agree."""

from __future__ import annotations

import posixpath
from collections.abc import Collection as Names
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apiserver_stub.resources import Resource


class Layout:
    """Collections and keys ↔ full keys.

    :param folders: collection → its folder below *prefix*, where that is not its plural.
    """

    def __init__(self, prefix: str, folders: Mapping[str, str]) -> None:
        self.prefix = posixpath.join("/", prefix).rstrip("/")
        self._folders = dict(folders)
        self._collections = {folder: name for name, folder in folders.items()}

    @classmethod
    def of(cls, prefix: str, resources: Iterable[Resource]) -> Layout:
        """Return the layout for *resources*."""
        folders: dict[str, str] = {}
        for item in resources:
            if "get" in item.verbs:  # others are answered and never stored
                folders[item.storage] = item.storage_key or item.plural
        folders["core/masterleases"] = "masterleases"  # which servers live; nobody is served it
        folders["core/ranges"] = "ranges"  # the numbers given to services; nobody is served it either
        return cls(prefix, folders)

    @property
    def collections(self) -> list[str]:
        return list(self._folders)

    def only(self, names: Names[str]) -> Layout:
        """Return the same with *names* alone."""
        return Layout(self.prefix, {name: folder for name, folder in self._folders.items() if name in names})

    def without(self, names: Names[str]) -> Layout:
        """Return the same without *names*."""
        return Layout(self.prefix, {name: folder for name, folder in self._folders.items() if name not in names})

    def folder(self, collection: str) -> str:
        """Return what the full keys of *collection* start with."""
        return f"{self.prefix}/{self._folders.get(collection) or collection.rpartition('/')[2]}/"

    def place(self, collection: str, key: str) -> str:
        """Return the full key."""
        return self.folder(collection) + key

    def find(self, place: str) -> tuple[str, str] | None:
        """Return collection and key of the full key *place*, ``None`` when it belongs to nothing that is served."""
        if not place.startswith(self.prefix + "/"):
            return None
        first, _, rest = place[len(self.prefix) + 1 :].partition("/")
        if (name := self._collections.get(first)) is not None:
            return (name, rest) if rest else None
        second, _, rest = rest.partition("/")
        name = self._collections.get(f"{first}/{second}")
        return (name, rest) if name is not None and rest else None
