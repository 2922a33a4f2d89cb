"""Conversion of discovery documents of extension API servers to aggregated discovery. No I/O."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object

_COPIED = ("shortNames", "categories")


def resources_of(document: Any) -> list[Object]:
    """Return the resources of an ``APIResourceList``, each with its subresources.

    :raises ValueError: *document* is not a valid ``APIResourceList``.
    """
    if not isinstance(document, dict) or document.get("kind") != "APIResourceList":
        raise ValueError("response is not an APIResourceList")
    entries = document.get("resources") or []
    if not isinstance(entries, list):
        raise ValueError("resources of the APIResourceList are not a list")  # noqa: TRY004 - untrusted input
    found: dict[str, Object] = {}
    for entry in entries:
        full_name = entry.get("name") if isinstance(entry, dict) else None
        name, _, subresource = full_name.partition("/") if isinstance(full_name, str) else ("", "", "")
        if not name:
            raise ValueError("resource of the APIResourceList has no name")
        scope = "Namespaced" if entry.get("namespaced") else "Cluster"
        parent = found.setdefault(name, {"resource": name, "scope": scope, "singularResource": "", "verbs": []})
        if subresource:
            parent.setdefault("subresources", []).append({"subresource": subresource, **_common(entry)})
            parent.setdefault("responseKind", {"group": "", "version": "", "kind": ""})
            continue
        parent |= _common(entry) | {"singularResource": entry.get("singularName") or "", "scope": scope}
        parent |= {name: entry[name] for name in _COPIED if entry.get(name)}
    return list(found.values())


def openapi_url(index: Any, path: str) -> str:
    """Return the URL of the document of *path* (``/apis/GROUP/VERSION``) in the OpenAPI *index*, empty if missing."""
    paths = index.get("paths") if isinstance(index, dict) else None
    entry = paths.get(path.strip("/")) if isinstance(paths, dict) else None
    url = entry.get("serverRelativeURL") if isinstance(entry, dict) else None
    return url if isinstance(url, str) and url.startswith(f"/openapi/v3{path}") else ""


def _common(entry: Object) -> Object:
    kind = {"group": entry.get("group") or "", "version": entry.get("version") or "", "kind": entry.get("kind") or ""}
    return {"responseKind": kind, "verbs": entry.get("verbs") or []}
