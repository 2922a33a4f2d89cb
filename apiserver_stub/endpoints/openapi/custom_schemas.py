"""Schemas of custom kinds for the published documents: those of their definitions and the fields of all resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.endpoints.openapi import descriptions

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Resource

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_NOT_IN_V2 = ("allOf", "anyOf", "oneOf", "not", "nullable", "default", "example", "externalDocs")
"""Fields of schemas that version 2 cannot express, or that kube-apiserver does not publish in it."""
Refer = Callable[[str], Object]


def custom_name(resource: Resource, kind: str = "") -> str:
    """Return the name of the schema of a custom kind: the reversed group, the version and the kind."""
    group = ".".join(reversed(resource.group.split(".")))
    return f"{group}.{resource.version}.{kind or resource.kind}"


def custom_schema(resource: Resource, source: Object, refer: Refer, *, v3: bool) -> Object:
    """Return the schema of *resource*, whose definition has the schema *source*."""
    found: Object = _convert(source, refer, v3=v3, resource=True)
    found["x-kubernetes-group-version-kind"] = [_of_kind(resource, resource.kind)]
    return found


def custom_list(resource: Resource, refer: Refer, *, v3: bool) -> Object:
    """Return the schema of lists of *resource*."""
    metadata = descriptions.of_field("meta.ListMeta", "metadata")
    items = {"description": f"List of {resource.plural}. More info: {_CONVENTIONS}", "type": "array"}
    return {
        "description": f"{resource.list_kind} is a list of {resource.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_type_fields(),
            "items": {**items, "items": _reference(custom_name(resource), "", refer, v3=v3)},
            "metadata": _reference(f"{_META}.ListMeta", metadata, refer, v3=v3),
        },
        "x-kubernetes-group-version-kind": [_of_kind(resource, resource.list_kind)],
    }


_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"


def _of_kind(resource: Resource, kind: str) -> Object:
    return {"group": resource.group, "kind": kind, "version": resource.version}


def _type_fields() -> Object:
    return {name: {"description": descriptions.of_field("", name), "type": "string"} for name in ("apiVersion", "kind")}


def _reference(name: str, description: str, refer: Refer, *, v3: bool) -> Object:
    described: Object = {"description": description} if description else {}
    return {**described, "allOf": [refer(name)]} if v3 else {**described, **refer(name)}


def _convert(source: Any, refer: Refer, *, v3: bool, resource: bool = False) -> Any:
    if isinstance(source, bool):
        return source
    found: Object = {}
    for name, content in source.items():
        if name == "properties":
            found[name] = {key: _convert(value, refer, v3=v3) for key, value in content.items()}
        elif name in ("items", "additionalProperties", "not"):
            found[name] = _convert(content, refer, v3=v3)
        elif name in ("allOf", "anyOf", "oneOf"):
            found[name] = [_convert(item, refer, v3=v3) for item in content]
        else:
            found[name] = content
    if not v3:
        found = _for_v2(found)
    if resource or source.get("x-kubernetes-embedded-resource"):
        metadata = _reference(f"{_META}.ObjectMeta", descriptions.of_field("", "metadata"), refer, v3=v3)
        found["properties"] = {**(found.get("properties") or {}), **_type_fields(), "metadata": metadata}
    return found


def _for_v2(schema: Object) -> Object:
    """Return *schema* without what version 2 cannot express; values that may be null have no type."""
    dropped = set(_NOT_IN_V2)
    if schema.get("nullable"):
        dropped |= {"type", "items", "properties"}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        dropped |= {"items", "properties"} if schema.get("type") != "object" else {"properties"}
    if isinstance(schema.get("additionalProperties"), bool):
        dropped.add("additionalProperties")
    return {name: content for name, content in schema.items() if name not in dropped}
