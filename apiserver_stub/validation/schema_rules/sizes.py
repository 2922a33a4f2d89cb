"""Greatest sizes of the values that a structural schema describes, as kube-apiserver estimates them. No I/O."""

from __future__ import annotations

from collections.abc import Callable

from apiserver_stub.cel.cost_bounds import ITEMS, KEYS, VALUES, Path, Shape
from apiserver_stub.schema.structural.tree import Node
from apiserver_stub.validation.schema_rules.types import escaped, fields_of, kind_of

_MAX_REQUEST_BYTES = 3 << 20
_FORMATS = {"duration": (32, 3), "date": (12, 12), "date-time": (32, 21)}
"""Greatest length of the values of a text format, and the least number of bytes of their JSON."""
_LEAST_BYTES = {"boolean": 4, "integer": 1, "number": 1}


def shapes_of(node: Node, *, is_resource: bool) -> Callable[[Path], Shape | None]:
    """Return the function that describes the values at a path below the variable whose schema is *node*."""

    def shape_of(path: Path) -> Shape | None:
        current, at_root = node, True
        for index, name in enumerate(path[1:], 1):
            if name == KEYS:
                # Texts without a maximum; a key has no parts.
                return Shape("string", 0) if current.values is not None and index == len(path) - 1 else None
            below = _below(current, name, is_resource=is_resource and at_root)
            if below is None:
                return None
            current, at_root = below, False
        return Shape(kind_of(current), max_size(current))

    return shape_of


def _below(node: Node, name: str, *, is_resource: bool) -> Node | None:
    if name in (ITEMS, VALUES):
        return node.items if node.items is not None else node.values
    fields = fields_of(node, is_resource=is_resource)
    return next((below for field, below in fields.items() if escaped(field) == name), None)


def max_size(node: Node) -> int:
    """Return the greatest number of bytes of a text, of items of a list, or of entries of a map; 0 for others."""
    source = node.source
    if node.int_or_text:
        return _MAX_REQUEST_BYTES - 2
    if node.type == "array" and node.items is not None:
        limit = source.get("maxItems")
        return _not_negative(limit, (_MAX_REQUEST_BYTES - 2) // (least_bytes(node.items) + 1))
    if node.type == "object" and node.values is not None:
        limit = source.get("maxProperties")
        return _not_negative(limit, (_MAX_REQUEST_BYTES - 2) // (least_bytes(node.values) + 6))
    return _text_size(node) if node.type == "string" else 0


def _text_size(node: Node) -> int:
    source = node.source
    format, limit = source.get("format") or "", source.get("maxLength")
    if format in _FORMATS:
        return _FORMATS[format][0]
    if limit is not None:
        # A character of a text has at most four bytes.
        return _not_negative(limit) * (1 if format == "byte" else 4)
    values = [value for value in source.get("enum") or () if isinstance(value, str)]
    if values and format != "byte":
        return max(len(value.encode()) for value in values)
    return _MAX_REQUEST_BYTES - 2


def least_bytes(node: Node, *, is_resource: bool = False) -> int:
    """Return the least number of bytes of the JSON of a value."""
    if node.type != "object" or node.values is not None or node.int_or_text:
        if node.type == "string":
            return _FORMATS.get(node.source.get("format") or "", (0, 2))[1]
        return _LEAST_BYTES.get(node.type, 2 if not node.int_or_text else 1)
    required = set(node.source.get("required") or ())
    return 2 + sum(
        len(name) + least_bytes(below) + 4
        for name, below in fields_of(node, is_resource=is_resource).items()
        if name in required and below.default is None
    )


def max_count(node: Node, *, is_resource: bool) -> int:
    """Return the greatest number of values of the schema *node* in one object."""
    return _MAX_REQUEST_BYTES // (least_bytes(node, is_resource=is_resource) + 1)


def max_children(node: Node) -> int | None:
    """Return the factor by which *node* multiplies the values below it; ``None`` if there is no limit."""
    if node.type == "object" and node.is_map:
        limit = node.source.get("maxProperties")
        return None if limit is None else _not_negative(limit)
    if node.type == "array":
        limit = node.source.get("maxItems")
        return None if limit is None else _not_negative(limit)
    return 1


def _not_negative(value: int | None, default: int = 0) -> int:
    return default if value is None else max(0, value)
