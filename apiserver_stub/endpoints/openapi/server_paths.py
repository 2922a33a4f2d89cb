"""Paths of discovery, the version and the token issuer in published documents."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import media
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.endpoints.issuer_discovery import DOCUMENT_PATH, KEYS_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from apiserver_stub.endpoints.openapi.group_names import GroupNames
    from apiserver_stub.endpoints.openapi.schemas import Schemas

_ISSUER = "getServiceAccountIssuerOpenID"
_TEXT: Object = {"type": "string"}


class ServerPaths:
    """Path items of a document of version 3, or of version 2; each adds its schemas to the document."""

    def __init__(self, schemas: Schemas, names: GroupNames, *, v3: bool) -> None:
        self._schemas, self._names, self._v3 = schemas, names, v3

    def group_version(self, group: str, version: str) -> Object:
        """Return the path that lists the resources of a group version."""
        root = f"/apis/{group}/{version}/" if group else f"/api/{version}/"
        names = self._names
        name = f"get{names.prefix(group, version)}APIResources"
        return {root: self._discovery("List the resources.", name, names.tag(group, version), "APIResourceList")}

    def items(self, groups: Iterable[str]) -> dict[str, Callable[[], Object]]:
        """Return functions that build the other path items, by path; version 3 has a document for each.

        :param groups: groups that have a name.
        """
        names = self._names
        found: dict[str, Callable[[], Object]] = {
            "/api/": partial(self._discovery, "List the versions.", "getCoreAPIVersions", "core", "APIVersions"),
            "/apis/": partial(self._discovery, "List the groups.", "getAPIVersions", "apis", "APIGroupList"),
        }
        for group in groups:
            name = f"get{names.prefix(group)}APIGroup"
            found[f"/apis/{group}/"] = partial(self._discovery, "Return the group.", name, names.tag(group), "APIGroup")
        return {
            **found,
            "/version/": self._version,
            f"{DOCUMENT_PATH}/": self._issuer,
            f"{KEYS_PATH}/": self._keys,
        }

    def _version(self) -> Object:
        content = self._schemas.refer_version()
        item = self._item("Return the version of the server.", "getCodeVersion", "version", content, [media.JSON])
        if not self._v3:
            item["get"]["consumes"] = [media.JSON]
        return item

    def _issuer(self) -> Object:
        description = "Describe the issuer of service account tokens."
        return self._item(description, f"{_ISSUER}Configuration", "WellKnown", _TEXT, [media.JSON])

    def _keys(self) -> Object:
        description = "List the public keys that verify service account tokens."
        return self._item(description, f"{_ISSUER}Keyset", "openid", _TEXT, ["application/jwk-set+json"])

    def _discovery(self, description: str, name: str, tag: str, kind: str) -> Object:
        types = self._schemas.media_types
        item = self._item(description, name, tag, self._schemas.refer_meta(kind), types)
        if not self._v3:
            item["get"]["consumes"] = list(types)
        return item

    def _item(self, description: str, name: str, tag: str, content: Object, types: Sequence[str]) -> Object:
        found: Object = {"description": "OK"}
        operation: Object = {"description": description, "operationId": name, "tags": [tag]}
        if self._v3:
            found["content"] = {media_type: {"schema": content} for media_type in types}
        else:
            found["schema"] = content
            operation |= {"produces": list(types), "schemes": ["https"]}
        operation["responses"] = {"200": found, "401": {"description": "Unauthorized"}}
        return {"get": operation}
