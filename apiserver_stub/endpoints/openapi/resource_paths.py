"""Paths of resources in published documents, with their verbs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Resource, Subresource

WATCH, WATCH_LIST = "watch", "watchlist"
"""Actions of the deprecated paths that watch one object or several."""
_ITEM_VERBS = ("get", "update", "patch", "delete")
_COLLECTION_VERBS = ("list", "create", "deletecollection")
_SUBRESOURCE_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update")


def paths_of(resource: Resource) -> Iterator[tuple[str, list[str], Subresource | None]]:
    """Yield each path of *resource* with its verbs."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    inside = f"{root}{scope}/{resource.plural}"
    yield inside, [verb for verb in _COLLECTION_VERBS if verb in resource.verbs], None
    yield f"{inside}/{{name}}", [verb for verb in _ITEM_VERBS if verb in resource.verbs], None
    if resource.namespaced and "list" in resource.verbs:
        yield f"{root}/{resource.plural}", ["list"], None
    for subresource in resource.subresources:
        path = f"{inside}/{{name}}/{subresource.name}"
        yield path, [verb for verb in _SUBRESOURCE_VERBS if verb in subresource.verbs], subresource
        if subresource.name == "proxy":
            yield f"{path}/{{path}}", [], subresource
    if "watch" in resource.verbs and resource.schema is None:
        watched = f"{root}/watch{scope}/{resource.plural}"
        yield watched, [WATCH_LIST], None
        yield f"{watched}/{{name}}", [WATCH], None
        if resource.namespaced:
            yield f"{root}/watch/{resource.plural}", [WATCH_LIST], None
