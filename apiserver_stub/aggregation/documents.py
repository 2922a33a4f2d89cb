"""Discovery documents of extension API servers, turned into what the one document of all groups lists (pure)."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object

_COPIED = ("shortNames", "categories")


def resources_of(document: Any) -> list[Object]:
    """Return the resources of an ``APIResourceList``, each with its subresources.

    :raises ValueError: it is none.
    """
    if not isinstance(document, dict) or document.get("kind") != "APIResourceList":
        raise ValueError("the answer is no APIResourceList")
    entries = document.get("resources") or []
    if not isinstance(entries, list):
        raise ValueError("the resources of the APIResourceList are no list")  # noqa: TRY004 - it came from elsewhere
    found: dict[str, Object] = {}
    for entry in entries:
        given = entry.get("name") if isinstance(entry, dict) else None
        if not given or not isinstance(given, str):
            raise ValueError("a resource of the APIResourceList has no name")
        name, _, subresource = given.partition("/")
        scope = "Namespaced" if entry.get("namespaced") else "Cluster"
        parent = found.setdefault(name, {"resource": name, "scope": scope, "singularResource": "", "verbs": []})
        if subresource:
            parent.setdefault("subresources", []).append({"subresource": subresource, **_common(entry)})
            parent.setdefault("responseKind", {"group": "", "version": "", "kind": ""})
            continue
        parent |= _common(entry) | {"singularResource": entry.get("singularName") or "", "scope": scope}
        parent |= {member: entry[member] for member in _COPIED if entry.get(member)}
    return list(found.values())


def openapi_url(index: Any, path: str) -> str:
    """Return where an OpenAPI index says the document of *path* (``/apis/<group>/<version>``) is, empty if nowhere."""
    paths = index.get("paths") if isinstance(index, dict) else None
    entry = paths.get(path.strip("/")) if isinstance(paths, dict) else None
    url = entry.get("serverRelativeURL") if isinstance(entry, dict) else None
    return url if isinstance(url, str) and url.startswith(f"/openapi/v3{path}") else ""


def _common(entry: Object) -> Object:
    kind = {"group": entry.get("group") or "", "version": entry.get("version") or "", "kind": entry.get("kind") or ""}
    return {"responseKind": kind, "verbs": entry.get("verbs") or []}
