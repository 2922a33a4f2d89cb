"""Default values of structural schemas. No I/O."""

from __future__ import annotations

from typing import Any

from apiserver_stub.schema.structural.tree import Node


def apply_defaults(value: Any, node: Node) -> None:
    """Set the default values in *value* in place; they also replace nulls of fields that are not nullable."""
    if not node.has_defaults:
        return
    if value.__class__ is dict:
        for name, below in node.properties.items():
            if below.default is not None and (name not in value or (value[name] is None and not below.nullable)):
                value[name] = below.default_value()
        for name, content in value.items():
            child = node.child(name)
            if child is None:
                continue
            if content is None and not child.nullable and name not in node.properties:
                value[name] = child.default_value()
            if value[name].__class__ in (dict, list):
                apply_defaults(value[name], child)
    elif value.__class__ is list and (items := node.items) is not None:
        for index, item in enumerate(value):
            if item is None and not items.nullable and items.default is not None:
                value[index] = items.default_value()
            apply_defaults(value[index], items)
