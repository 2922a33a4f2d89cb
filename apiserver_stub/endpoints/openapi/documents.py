"""Assembly of the OpenAPI documents from paths and schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.version import git_version
from apiserver_stub.endpoints.openapi import shared_parameters
from apiserver_stub.endpoints.openapi.group_names import GroupNames
from apiserver_stub.endpoints.openapi.operations import Operations
from apiserver_stub.endpoints.openapi.schemas import Schemas
from apiserver_stub.endpoints.openapi.server_paths import ServerPaths

if TYPE_CHECKING:
    from collections.abc import Collection

    from apiserver_stub.kinds.registry import Registry
    from nodeagent.base.identity import Identity
    from nodeagent.base.release import Release

_SECURITY_SCHEMES = {
    "BearerToken": {
        "description": "Token of a user or service account, after the word Bearer.",
        "in": "header",
        "name": "authorization",
        "type": "apiKey",
    }
}
_V3_SCHEMAS = "#/components/schemas/"
_WITHOUT_PATCH_SINCE = 31
"""First minor release whose documents have a version without the patch number."""


def build_documents(registry: Registry, identity: Identity, release: Release, *, enums: bool) -> dict[str, bytes]:
    """Return every document: version 3 by path, version 2 under the empty name."""
    names = GroupNames(identity.api_domain)
    groups = dict.fromkeys(
        group for group, version in registry.group_versions() if group and _is_bundled(registry, group, version)
    )
    found = {}
    for group, version in registry.group_versions():
        schemas = Schemas(_V3_SCHEMAS, identity, release, [(group, version)], enums=enums)
        paths = Operations(schemas, names, v3=True).paths(registry.of(group, version))
        if _is_bundled(registry, group, version):
            paths |= ServerPaths(schemas, names, v3=True).group_version(group, version)
        found[f"apis/{group}/{version}" if group else f"api/{version}"] = _version_3(paths, schemas, release)
    for path in ServerPaths(Schemas(_V3_SCHEMAS, identity, release), names, v3=True).items(groups):
        schemas = Schemas(_V3_SCHEMAS, identity, release)
        item = ServerPaths(schemas, names, v3=True).items(groups)[path]()
        found[path.strip("/")] = _version_3({path: item}, schemas, release)
    found[""] = _version_2(registry, groups, names, Schemas("#/definitions/", identity, release, enums=enums), release)
    return found


def _is_bundled(registry: Registry, group: str, version: str) -> bool:
    """Return whether a group version has other resources than those of definitions."""
    return any(resource.schema is None for resource in registry.of(group, version))


def _version_3(paths: Object, schemas: Schemas, release: Release) -> bytes:
    components: Object = {"schemas": dict(sorted(schemas.found.items()))} if schemas.found else {}
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": _version_of(release)},
        "paths": paths,
        "components": {**components, "securitySchemes": _SECURITY_SCHEMES},
    }
    return objects.encode(document)


def _version_2(
    registry: Registry, groups: Collection[str], names: GroupNames, schemas: Schemas, release: Release
) -> bytes:
    paths = Operations(schemas, names, v3=False).paths(registry)
    server = ServerPaths(schemas, names, v3=False)
    for group, version in registry.group_versions():
        if _is_bundled(registry, group, version):
            paths |= server.group_version(group, version)
    paths |= {path: build() for path, build in server.items(groups).items()}
    document = {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": _version_of(release)},
        "paths": paths,
        "parameters": shared_parameters.share(paths),
        "definitions": dict(sorted(schemas.found.items())),
        "securityDefinitions": _SECURITY_SCHEMES,
        "security": [{name: [] for name in _SECURITY_SCHEMES}],
    }
    return objects.encode(document)


def _version_of(release: Release) -> str:
    """Return the version of the documents; newer releases omit the patch number."""
    return str(release) if release.minor >= _WITHOUT_PATCH_SINCE else git_version(release)
