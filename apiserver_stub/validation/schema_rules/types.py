"""CEL types of the values that a structural schema describes. No I/O."""

from __future__ import annotations

import re

from apiserver_stub.cel.identifiers import RESERVED
from apiserver_stub.schema.structural.tree import Node

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_./-]*\Z")
_ESCAPED = re.compile(r"__|[./-]")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "/": "__slash__", "-": "__dash__"}
_FORMATS = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}
_SCALARS = {"boolean": "bool", "integer": "int", "number": "double"}
_TEXT = Node({"type": "string"}, "string")
_METADATA = Node({"type": "object"}, "object", properties={"name": _TEXT, "generateName": _TEXT})
_RESOURCE_FIELDS = {"kind": _TEXT, "apiVersion": _TEXT, "metadata": _METADATA}


def escaped(name: str) -> str | None:
    """Return the name of a field in expressions, ``None`` if expressions cannot refer to it."""
    if name in RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name) if _NAME.match(name) else None


def kind_of(node: Node) -> str:
    """Return the kind of the values of *node*; empty if expressions cannot use them."""
    if node.int_or_text:
        return "dyn"
    if node.type == "string":
        return _FORMATS.get(node.source.get("format") or "", "string")
    if node.type == "array":
        return "list" if node.items is not None and kind_of(node.items) else ""
    if node.type == "object":
        if node.values is not None:
            return "map" if kind_of(node.values) else ""
        return "object"
    return _SCALARS.get(node.type, "")


def fields_of(node: Node, *, is_resource: bool = False) -> dict[str, Node]:
    """Return the nodes of the fields of an object that expressions can use."""
    fields = {**node.properties, **_RESOURCE_FIELDS} if is_resource or node.is_resource else node.properties
    return {name: field for name, field in fields.items() if escaped(name) and kind_of(field)}


class ObjectTypes:
    """Object types of a schema by name."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, str]] = {}

    def add(self, node: Node, *, is_resource: bool = False) -> str:
        """Add the types of *node*, and return its own type."""
        kind = kind_of(node)
        if kind == "object":
            name = f"Type{len(self.found)}"
            fields = self.found[name] = {}
            for field, below in fields_of(node, is_resource=is_resource).items():
                fields[escaped(field) or field] = self._field(below)
            return name
        if kind == "list" and node.items is not None:
            return f"list({self.add(node.items)})"
        if kind == "map" and node.values is not None:
            return f"map({self.add(node.values)})"
        return kind

    def _field(self, node: Node) -> str:
        """Return the type of a field, which is less precise than that of a variable."""
        kind = kind_of(node)
        if kind == "list" and node.items is not None:
            item = kind_of(node.items)
            return "list" if item in ("list", "map", "dyn") else f"list({self._field(node.items)})"
        if kind == "map":
            return "map"
        return self.add(node)
