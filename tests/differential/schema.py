"""The fields of a kind from the server's OpenAPI document, for generated cases. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

_SCALARS = {"Quantity": "quantity", "IntOrString": "int-or-string", "Time": "time", "MicroTime": "micro-time"}


@dataclass(frozen=True)
class Shape:
    """The type of one value; *fields* of an object and *item* of a list or map are resolved lazily."""

    form: str
    """``object``, ``list``, ``map``, ``string``, ``int32``, ``int64``, ``bool``, ``float``, ``bytes``, ``quantity``,
    ``int-or-string``, ``time``, ``micro-time`` or ``any``."""
    document: dict[str, Any] = field(repr=False, compare=False)
    node: dict[str, Any] = field(repr=False, compare=False)

    @cached_property
    def fields(self) -> dict[str, Shape]:
        found = self.node.get("properties", {})
        return {name: shape_of(self.document, node) for name, node in found.items()}

    @cached_property
    def item(self) -> Shape:
        return shape_of(self.document, self.node.get("items") or self.node.get("additionalProperties") or {})

    @property
    def choices(self) -> list[str]:
        return list(self.node.get("enum", ()))

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the fields that identify the items of a list for server-side apply."""
        return tuple(self.node.get("x-kubernetes-list-map-keys", ()))

    @property
    def merge_key(self) -> str:
        """Return the field that identifies the items of a list for strategic merge patches."""
        return str(self.node.get("x-kubernetes-patch-merge-key", ""))


def kind_shape(document: dict[str, Any], api_version: str, kind: str) -> Shape:
    """Return the shape of a kind.

    :raises LookupError: the document does not define it.
    """
    group, _, version = api_version.rpartition("/")
    for definition in document["definitions"].values():
        for item in definition.get("x-kubernetes-group-version-kind", ()):
            if (item["group"], item["version"], item["kind"]) == (group, version, kind):
                return shape_of(document, definition)
    raise LookupError(f"{api_version} {kind}")


def shape_of(document: dict[str, Any], node: dict[str, Any]) -> Shape:
    """Return the shape that *node* of the document describes."""
    extra = {name: value for name, value in node.items() if name.startswith("x-kubernetes")}
    while "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if (form := _SCALARS.get(name.rpartition(".")[2])) is not None:
            return Shape(form, document, node)
        node = {**document["definitions"][name], **extra}
    kind = node.get("type", "")
    if kind == "object":
        if "properties" in node:
            return Shape("object", document, node)
        return Shape("map" if "additionalProperties" in node else "any", document, node)
    if kind == "array":
        return Shape("list", document, node)
    if kind == "string":
        return Shape({"byte": "bytes"}.get(node.get("format", ""), "string"), document, node)
    forms = {"boolean": "bool", "integer": node.get("format", "int64"), "number": "float"}
    return Shape(forms.get(kind, "any"), document, node)
