"""OpenAPI documents of the served resources: version 3 by group version, version 2 as a whole."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import media, objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.version import git_version
from apiserver_stub.endpoints.openapi.schemas import Schemas
from apiserver_stub.verbs.responses import Reply
from nodeagent.base.release import OLDEST, Release

if TYPE_CHECKING:
    from apiserver_stub.aggregation.remotes import Remotes
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Registry, Resource, Subresource
    from nodeagent.base.identity import Identity

V2, V3 = "/openapi/v2", "/openapi/v3"
_METHODS = {
    "create": "post",
    "delete": "delete",
    "deletecollection": "delete",
    "get": "get",
    "list": "get",
    "patch": "patch",
    "update": "put",
}
_ITEM_VERBS = ("get", "update", "patch", "delete")
_COLLECTION_VERBS = ("list", "create", "deletecollection")
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_LIST = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_PARAMETERS = {
    "create": _WRITE,
    "delete": _DELETE,
    "deletecollection": tuple(dict.fromkeys((*_DELETE, *(name for name in _LIST if name not in ("watch",))))),
    "get": (),
    "list": _LIST,
    "patch": (*_WRITE, "force"),
    "update": _WRITE,
}
_TYPES = {
    "allowWatchBookmarks": "boolean",
    "force": "boolean",
    "gracePeriodSeconds": "integer",
    "limit": "integer",
    "orphanDependents": "boolean",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}
_ACTIONS = {"create": "post", "update": "put", "watch": "watchlist"}
_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_TYPES = {
    media.JSON: media.JSON,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": _PROTOBUF,
    _PROTOBUF: _PROTOBUF,
    "application/*": media.JSON,
    "*/*": media.JSON,
}
"""Requested media type → media type of the response."""
_KEPT_SECONDS = 365 * 24 * 3600
"""Cache time of documents requested by their hash, which never change."""


class OpenApi:
    """OpenAPI documents of the served resources, built on the first request."""

    read_only = False

    def __init__(self, registry: Registry, remotes: Remotes, identity: Identity, release: Release = OLDEST) -> None:
        self._release = release
        self._registry, self._remotes, self._identity = registry, remotes, identity
        self._documents: dict[str, bytes] | None = None
        self._protobuf: bytes | None = None
        registry.listen(self._drop)

    def _drop(self) -> None:
        """Drop the documents, which are built again on the next request."""
        self._documents = self._protobuf = None

    async def respond(self, request: Request) -> Reply | None:
        """Return the document at an OpenAPI path, ``None`` for other paths."""
        path, registry = request.info.path, self._registry
        if path not in (V2, V3) and not path.startswith(V3 + "/"):
            return None
        if self._documents is None:
            self._documents = await asyncio.to_thread(_build, registry, self._identity, self._release)
        known = self._documents
        if path == V3:
            index = {
                name: {"serverRelativeURL": f"{V3}/{name}?hash={_hash(body)}"} for name, body in known.items() if name
            }
            index |= {
                f"apis/{group}/{version}": {"serverRelativeURL": found.openapi_url}
                for (group, version), found in self._remotes.discovered.items()
                if found.openapi_url
            }
            return Reply(200, body=objects.encode({"paths": index}), content_type="text/plain; charset=utf-8")
        content_type = _v2_type(request.headers.get("Accept", "")) if path == V2 else media.JSON
        if not content_type:
            return Reply(406, body=b"")
        body = known.get("" if path == V2 else path.removeprefix(V3 + "/"))
        if body is None:
            return None
        tag = f'"{_hash(body)}"'
        headers = {"Etag": tag, "Vary": "Accept"}
        if requested := request.query.get("hash"):
            if requested != _hash(body):
                location = f"{path}?hash={_hash(body)}"
                return Reply(301, body=b"", headers={"Location": location})
            headers["Cache-Control"] = "public, immutable"
            headers["Expires"] = formatdate(time.time() + _KEPT_SECONDS, usegmt=True)
        if request.headers.get("If-None-Match") == tag:
            return Reply(304, body=b"", content_type=content_type, headers=headers)
        if content_type == _PROTOBUF:
            body = await self._in_protobuf(body)
        return Reply(200, body=body, content_type=content_type, headers=headers)

    async def _in_protobuf(self, document: bytes) -> bytes:
        if self._protobuf is None:
            from apiserver_stub.endpoints.openapi import protobuf  # Only older clients request it.

            self._protobuf = await asyncio.to_thread(lambda: protobuf.encode(objects.decode(document)))
        return self._protobuf


def _v2_type(accept: str) -> str:
    """Return the media type of the response for the header *accept*, empty if none matches."""
    kinds = (kind for kind, _ in media.clauses(accept or "*/*"))
    return next((_V2_TYPES[kind] for kind in kinds if kind in _V2_TYPES), "")


def _hash(body: bytes) -> str:
    return hashlib.sha512(body).hexdigest().upper()


def _build(registry: Registry, identity: Identity, release: Release = OLDEST) -> dict[str, bytes]:
    """Return every document: version 3 by path, version 2 under the empty name."""
    found = {}
    for group, version in registry.group_versions():
        schemas = Schemas("#/components/schemas/", identity, release)
        paths = _paths(registry.of(group, version), schemas, v3=True)
        document = {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": git_version(release)},
            "paths": paths,
            "components": {"schemas": dict(sorted(schemas.found.items()))},
        }
        found[f"apis/{group}/{version}" if group else f"api/{version}"] = objects.encode(document)
    schemas = Schemas("#/definitions/", identity, release)
    document = {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": git_version(release)},
        "paths": _paths(list(registry), schemas, v3=False),
        "definitions": dict(sorted(schemas.found.items())),
    }
    found[""] = objects.encode(document)
    return found


def _paths(resources: list[Resource], schemas: Schemas, *, v3: bool) -> Object:
    paths: Object = {}
    schemas.add("", "v1", "Status")
    schemas.add("", "v1", "DeleteOptions")
    for resource in resources:
        name = schemas.add_kind(resource)
        for path, verbs, subresource in _paths_of(resource):
            kind = subresource.kind if subresource is not None and subresource.kind else resource.kind
            group = subresource.group if subresource is not None else None
            version = subresource.version if subresource is not None else None
            of_kind = (
                resource.group if group is None else group,
                version or resource.version,
                kind,
            )
            body = name if kind == resource.kind else schemas.add(*of_kind)
            item: Object = {"parameters": _path_parameters(path, v3=v3)}
            for verb in verbs:
                operation = _operation(verb, of_kind, body, schemas, path, v3=v3)
                if resource.scale is not None and kind == "Scale":  # Several kinds of a group version have one.
                    operation["operationId"] = _scale_id(verb, resource)
                item[_METHODS[verb]] = operation
            if len(item) > 1:
                paths[path] = item
    return paths


def _paths_of(resource: Resource) -> Iterator[tuple[str, list[str], Subresource | None]]:
    """Yield each path of *resource* with its verbs."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    inside = (
        f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    )
    yield inside, [verb for verb in _COLLECTION_VERBS if verb in resource.verbs], None
    yield f"{inside}/{{name}}", [verb for verb in _ITEM_VERBS if verb in resource.verbs], None
    if resource.namespaced and "list" in resource.verbs:
        yield f"{root}/{resource.plural}", ["list"], None
    for subresource in resource.subresources:
        yield f"{inside}/{{name}}/{subresource.name}", [v for v in _METHODS if v in subresource.verbs], subresource


def _path_parameters(path: str, *, v3: bool) -> list[Object]:
    names = [name for name in ("name", "namespace") if f"{{{name}}}" in path]
    return [_parameter(name, "path", v3=v3) | {"required": True} for name in names] + [
        _parameter("pretty", "query", v3=v3)
    ]


def _parameter(name: str, location: str, *, v3: bool) -> Object:
    content: Object = {"type": _TYPES.get(name, "string"), "uniqueItems": True}
    return {"name": name, "in": location, **({"schema": content} if v3 else content)}


def _operation(
    verb: str, of_kind: tuple[str, str, str], body: str | None, schemas: Schemas, path: str, *, v3: bool
) -> Object:
    group, version, kind = of_kind
    result: str | None = f"{body}List" if body and verb in ("list", "deletecollection") else body
    if verb == "delete":
        result = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
    scope = "Namespaced" if "{namespace}" in path else ""
    tail = path.rpartition("}/")[2].title().replace("-", "") if path.count("}/") > path.count("{namespace}/") else ""
    every = "ForAllNamespaces" if verb == "list" and not scope and "{" not in path else ""
    codes = {"create": ("200", "201", "202"), "update": ("200", "201"), "patch": ("200", "201")}.get(verb, ("200",))
    operation: Object = {
        "operationId": f"{verb}{_camel(group)}{version.title()}{scope}{kind}{tail}{every}",
        "parameters": [_parameter(name, "query", v3=v3) for name in _PARAMETERS[verb]],
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
    }
    described: Object = {"description": "OK"}
    if result:
        reference = schemas.refer(result)
        described |= {"content": {media.JSON: {"schema": reference}}} if v3 else {"schema": reference}
    operation["responses"] = {**dict.fromkeys(codes, described), "401": {"description": "Unauthorized"}}
    sent = _sent(verb, body)
    if sent is None:
        return operation
    types = _PATCH_TYPES if verb == "patch" else schemas.media_types
    content: Object = {"type": "object"} if verb == "patch" else schemas.refer(sent)
    if v3:
        operation["requestBody"] = {
            "content": {name: {"schema": content} for name in types},
            "required": verb not in ("delete", "deletecollection"),
        }
    else:
        operation["consumes"] = list(types)
        operation["parameters"].append({"name": "body", "in": "body", "schema": content})
    return operation


def _scale_id(verb: str, resource: Resource) -> str:
    scope = "Namespaced" if resource.namespaced else ""
    return f"{verb}{_camel(resource.group)}{resource.version.title()}{scope}{resource.kind}Scale"


def _sent(verb: str, body: str | None) -> str | None:
    if verb in ("delete", "deletecollection"):
        return "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    return body if verb in ("create", "update", "patch") else None


def _camel(group: str) -> str:
    return "".join(part.title() for part in group.split(".")[:1]) or "Core"
