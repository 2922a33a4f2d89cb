"""OpenAPI v3, as much as kubectl asks before it writes: which kinds can be patched with which options."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.discovery import GIT_VERSION
from apiserver_stub.objects import Object
from apiserver_stub.reply import Reply

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.request import Request
    from apiserver_stub.resources.registry import Registry, Resource

_ROOT = "/openapi/v3"
_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")


def answer(server: ApiServer, request: Request) -> Reply | None:
    """Answer an OpenAPI path, ``None`` for any other."""
    path, registry = request.info.path, server.registry
    if path != _ROOT and not path.startswith(_ROOT + "/"):
        return None
    documents = {_document_path(*pair): pair for pair in registry.group_versions()}
    if path == _ROOT:
        index = {
            name: {"serverRelativeURL": f"{_ROOT}/{name}?hash={_hash(_document(registry, *pair))}"}
            for name, pair in documents.items()
        }
        return Reply(200, body=objects.encode({"paths": index}), content_type="text/plain; charset=utf-8")
    pair = documents.get(path.removeprefix(_ROOT + "/"))
    if pair is None:
        return None
    body = _document(registry, *pair)
    return Reply(200, body=body, headers={"Etag": f'"{_hash(body)}"', "Vary": "Accept"})


def _document_path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _hash(body: bytes) -> str:
    return hashlib.sha512(body).hexdigest().upper()


def _document(registry: Registry, group: str, version: str) -> bytes:
    paths: Object = {}
    for resource in registry.of(group, version):
        if "patch" in resource.verbs:
            paths[_object_path(resource)] = {"patch": _patch(resource)}
    return objects.encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": GIT_VERSION},
            "paths": paths,
            "components": {"schemas": {}},
        }
    )


def _object_path(resource: Resource) -> str:
    namespace = "namespaces/{namespace}/" if resource.namespaced else ""
    return f"/{_document_path(resource.group, resource.version)}/{namespace}{resource.plural}/{{name}}"


def _patch(resource: Resource) -> Object:
    return {
        "operationId": f"patch{resource.kind}",
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in _PARAMETERS
        ],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "kind": resource.kind,
            "version": resource.version,
        },
    }
