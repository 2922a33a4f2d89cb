"""Paths and operations of resources in published documents, with the operation IDs that client generators expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import media
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.endpoints.openapi import parameters, shared_parameters
from apiserver_stub.endpoints.openapi.resource_paths import WATCH, WATCH_LIST, paths_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apiserver_stub.endpoints.openapi.group_names import GroupNames
    from apiserver_stub.endpoints.openapi.schemas import Schemas
    from apiserver_stub.kinds.registry import Resource, Subresource

_METHODS = {
    "create": "post",
    "delete": "delete",
    "deletecollection": "delete",
    "get": "get",
    "list": "get",
    "patch": "patch",
    "update": "put",
    WATCH: "get",
    WATCH_LIST: "get",
}
_ID_VERBS = {"deletecollection": "delete", "get": "read", "update": "replace", WATCH_LIST: "watch"}
"""Verbs of operation IDs, where they are not those of requests."""
_ACTIONS = {"create": "post", "update": "put"}
_CONNECTS = ("attach", "exec", "portforward", "proxy")
_PROXY_METHODS = ("delete", "get", "head", "options", "patch", "post", "put")
_CODES = {
    "create": ("200", "201", "202"),
    "delete": ("200", "202"),
    "patch": ("200", "201"),
    "update": ("200", "201"),
}
_CODE_DESCRIPTIONS = {"200": "OK", "201": "Created", "202": "Accepted"}
_SUMMARIES = {
    "create": "Create one {kind}.",
    "delete": "Delete one {kind}.",
    "deletecollection": "Delete several {kind} objects.",
    "get": "Return one {kind}.",
    "list": "Return or watch several {kind} objects.",
    "patch": "Change fields of one {kind}.",
    "update": "Replace one {kind}.",
    WATCH: "Watch one {kind}. Deprecated: use the parameters watch and fieldSelector of the list.",
    WATCH_LIST: "Watch several {kind} objects. Deprecated: use the parameter watch of the list.",
}
_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_TEXT = "text/plain"
_ANY_TYPE = "*/*"


class Operations:
    """Paths of resources in a document of version 3, or of version 2."""

    def __init__(self, schemas: Schemas, names: GroupNames, *, v3: bool) -> None:
        self._schemas, self._names, self._v3 = schemas, names, v3
        # kube-apiserver states any type in version 3 too, for which generators of clients create no code.
        self._body_types = schemas.media_types if v3 else (_ANY_TYPE,)

    def paths(self, resources: Iterable[Resource]) -> Object:
        """Return the path items of *resources*; their schemas are added to those of the document."""
        found: Object = {}
        for resource in resources:
            body = self._schemas.add_kind(resource)
            for path, verbs, subresource in paths_of(resource):
                item = self._item(path, verbs, resource, subresource, body)
                if item:
                    found[path] = item
        return found

    def _item(
        self, path: str, verbs: Sequence[str], resource: Resource, subresource: Subresource | None, body: str | None
    ) -> Object:
        name = subresource.name if subresource is not None else ""
        item: Object = {}
        if name in _CONNECTS:
            methods = _PROXY_METHODS if name == "proxy" else [_METHODS[verb] for verb in verbs]
            for method in sorted(methods):
                item[method] = self._connection(method, path, resource, subresource)
        sent = body
        if subresource is not None and subresource.kind not in ("", resource.kind):
            sent = self._schemas.add(*_kind_of(resource, subresource))
        for verb in () if name in _CONNECTS else verbs:
            item[_METHODS[verb]] = self._operation(verb, path, resource, subresource, sent)
        shared_parameters.move_common(item)
        return item

    def _operation(
        self, verb: str, path: str, resource: Resource, subresource: Subresource | None, body: str | None
    ) -> Object:
        group, version, kind = _kind_of(resource, subresource)
        name = subresource.name if subresource is not None else ""
        operation: Object = {
            "description": _SUMMARIES[verb].format(kind=kind),
            "operationId": self._operation_id(verb, path, resource, subresource),
            "parameters": parameters.of_operation(verb, path, kind, name, self._schemas.minor, v3=self._v3),
            "tags": [self._names.tag(resource.group, resource.version)],
            "x-kubernetes-action": _ACTIONS.get(verb, verb),
            "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
        }
        is_log = name == "log"
        produced = [*self._schemas.media_types]
        if is_log:
            produced.insert(0, _TEXT)
        elif verb in ("list", WATCH, WATCH_LIST):
            produced += [f"{name};stream=watch" for name in produced if name != media.YAML]
        content = {"type": "string"} if is_log else self._result(verb, body, resource)
        self._respond(operation, _CODES.get(verb, ("200",)), content, produced)
        self._accept(operation, verb, body)
        return operation

    def _connection(self, method: str, path: str, resource: Resource, subresource: Subresource | None) -> Object:
        group, version, kind = _kind_of(resource, subresource)
        action = subresource.name if subresource is not None else ""
        tail = action.capitalize() + ("WithPath" if "{path}" in path else "")
        prefix = self._names.prefix(resource.group, resource.version)
        operation: Object = {
            "description": f"Connect {method.upper()} requests to {action} of {resource.kind}.",
            "operationId": f"connect{prefix}{method.capitalize()}{_scope(path)}{resource.kind}{tail}",
            "parameters": parameters.of_operation("", path, kind, action, self._schemas.minor, v3=self._v3),
            "tags": [self._names.tag(resource.group, resource.version)],
            "x-kubernetes-action": "connect",
            "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
        }
        self._respond(operation, ("200",), {"type": "string"}, [_ANY_TYPE])
        if not self._v3:
            operation["consumes"] = [_ANY_TYPE]
        return operation

    def _respond(
        self, operation: Object, codes: Sequence[str], content: Object | None, produced: Sequence[str]
    ) -> None:
        described: Object = {}
        if content is not None:
            if self._v3:
                described["content"] = {name: {"schema": content} for name in produced}
            else:
                described["schema"] = content
        if not self._v3:
            operation |= {"produces": list(produced), "schemes": ["https"]}
        responses = {code: {"description": _CODE_DESCRIPTIONS[code], **described} for code in codes}
        operation["responses"] = {**responses, "401": {"description": "Unauthorized"}}

    def _accept(self, operation: Object, verb: str, body: str | None) -> None:
        """Add the body that requests contain."""
        content = self._sent(verb, body)
        if content is None:
            if not self._v3:
                operation["consumes"] = [_ANY_TYPE]
            return
        types = _PATCH_TYPES if verb == "patch" else self._body_types
        is_required = verb not in ("delete", "deletecollection")
        if self._v3:
            schema = {name: {"schema": content} for name in types}
            operation["requestBody"] = {"content": schema} | ({"required": True} if is_required else {})
            return
        operation["consumes"] = list(types)
        field: Object = {"name": "body", "in": "body", "schema": content}
        operation["parameters"].insert(0, field | ({"required": True} if is_required else {}))

    def _sent(self, verb: str, body: str | None) -> Object | None:
        if verb in ("delete", "deletecollection"):
            return self._schemas.refer_meta("DeleteOptions")
        if verb == "patch":
            return self._schemas.refer_meta("Patch")
        return self._schemas.refer(body) if body and verb in ("create", "update") else None

    def _result(self, verb: str, body: str | None, resource: Resource) -> Object | None:
        if verb in (WATCH, WATCH_LIST):
            return self._schemas.refer_meta("WatchEvent")
        if verb == "deletecollection" or (verb == "delete" and not _declares_deleted(resource)):
            return self._schemas.refer_meta("Status")
        if not body:
            return None
        return self._schemas.refer(f"{body.rpartition('.')[0]}.{resource.list_kind}" if verb == "list" else body)

    def _operation_id(self, verb: str, path: str, resource: Resource, subresource: Subresource | None) -> str:
        tail = subresource.name.replace("-", "").capitalize() if subresource is not None else ""
        if verb == "list" and resource.namespaced and not _scope(path):
            tail = "ForAllNamespaces"
        elif verb == WATCH_LIST:
            tail = "List" if _scope(path) or not resource.namespaced else "ListForAllNamespaces"
        collection = "Collection" if verb == "deletecollection" else ""
        name = f"{self._names.prefix(resource.group, resource.version)}{collection}{_scope(path)}{resource.kind}{tail}"
        return f"{_ID_VERBS.get(verb, verb)}{name}"


def _declares_deleted(resource: Resource) -> bool:
    """Return whether the declared result of a deletion is the object; that of namespaces is a status."""
    if not resource.group and resource.kind == "Namespace":
        return False
    return resource.returns_deleted or resource.strategy.graceful


def _scope(path: str) -> str:
    return "Namespaced" if "{namespace}" in path else ""


def _kind_of(resource: Resource, subresource: Subresource | None) -> tuple[str, str, str]:
    """Return group, version and kind of the objects at a path of *resource*."""
    if subresource is None:
        return resource.group, resource.version, resource.kind
    group = resource.group if subresource.group is None else subresource.group
    return group, subresource.version or resource.version, subresource.kind or resource.kind
