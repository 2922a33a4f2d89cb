"""Shapes of structural schemas, on which the ownership of fields is based. No I/O."""

from __future__ import annotations

from apiserver_stub.schema.shapes import DEDUCED, UNKNOWN, Form, Shape, plain
from apiserver_stub.schema.structural.embedded import metadata_shape
from apiserver_stub.schema.structural.tree import Node

_SCALARS = {"string": Form.TEXT, "integer": Form.INT64, "number": Form.FLOAT, "boolean": Form.BOOL}


def shape_of(node: Node, kind: str) -> Shape:
    """Return the shape of resources with the schema *node*."""
    shape = _object(node, keeps=node.preserves_unknown, resource=True)
    shape.name = kind
    return shape


def _shape(node: Node, *, keeps: bool = False) -> Shape:
    """Return the shape of a value.

    :param keeps: an enclosing schema preserves unknown fields, which includes those of this value.
    """
    keeps = keeps or node.preserves_unknown
    if node.int_or_text or (node.type == "string" and node.source.get("format") not in (None, "", "byte")):
        return plain(Form.INT_OR_TEXT)  # Server-side apply does not check the type of texts with a format.
    if node.type == "array":
        return _list(node, keeps=keeps)
    if node.type == "object":
        return _object(node, keeps=keeps, resource=node.is_resource)
    if node.type in _SCALARS:
        return plain(_SCALARS[node.type])
    return DEDUCED if keeps else UNKNOWN


def _list(node: Node, *, keeps: bool) -> Shape:
    items = node.items
    keys = node.list_keys if node.list_type == "map" else ()
    defaults = {
        name: key.default_value()
        for name in keys
        if items is not None and (key := items.properties.get(name)) is not None and key.default is not None
    }
    return Shape(
        Form.LIST,
        item=_shape(items, keeps=keeps) if items is not None else UNKNOWN,
        keys=keys,
        is_set=node.list_type == "set",
        key_defaults=defaults,
    )


def _object(node: Node, *, keeps: bool, resource: bool) -> Shape:
    atomic = node.map_type == "atomic"
    if not node.properties and not resource:
        if node.values is not None:
            return Shape(Form.MAP, item=_shape(node.values, keeps=keeps), atomic=atomic)
        return Shape(Form.MAP, item=DEDUCED, atomic=atomic)
    members = {name: _shape(content, keeps=keeps) for name, content in node.properties.items()}
    if resource:
        text = plain(Form.TEXT)
        members |= {"apiVersion": text, "kind": text, "metadata": metadata_shape()}
    other = DEDUCED if keeps or node.is_map else None
    return Shape(Form.OBJECT, members=members, other=other, atomic=atomic)
