"""Pruning: removal of the fields and nulls that a structural schema does not allow. No I/O."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema.structural.tree import METADATA_FIELDS, Node


def prune(obj: Object, node: Node) -> list[str]:
    """Prune *obj*, a complete resource, in place; return the paths of the removed unknown fields.

    Null values of fields that are not nullable are removed too, unless a default will replace them.
    """
    unknown: list[str] = []
    _prune_fields(obj, node, "", unknown, resource=True, keeps=node.preserves_unknown)
    unknown.sort()
    return unknown


def prune_value(value: Any, node: Node) -> list[str]:
    """Prune *value*, a part of a resource such as a default; see :func:`prune`."""
    unknown: list[str] = []
    _prune(value, node, "", unknown)
    return unknown


def _prune(value: Any, node: Node | None, path: str, unknown: list[str]) -> None:
    if value.__class__ is dict:
        if node is None:
            unknown.extend(f"{path}.{name}" if path else name for name in value)
            value.clear()
        else:
            _prune_fields(value, node, path, unknown, resource=node.is_resource, keeps=node.preserves_unknown)
    elif value.__class__ is list:
        keeps = node is not None and node.preserves_unknown
        items = node.items if node is not None else None
        if items is None and keeps:
            return
        for index, item in enumerate(value):
            if item.__class__ in (dict, list):
                _prune(item, items, f"{path}[{index}]", unknown)


def _prune_fields(value: Object, node: Node, path: str, unknown: list[str], *, resource: bool, keeps: bool) -> None:
    properties, values = node.properties, node.values
    removed: list[str] = []
    for name, content in value.items():
        if resource and name in METADATA_FIELDS:
            continue
        below = properties.get(name)
        if below is None:
            if not node.is_map:
                if not keeps:
                    removed.append(name)
                    if path or name not in METADATA_FIELDS:
                        unknown.append(f"{path}.{name}" if path else name)
                continue
            below = values
        if content is None:
            if below is not None and not below.nullable and below.default is None:
                removed.append(name)
        elif content.__class__ in (dict, list):
            _prune(content, below, f"{path}.{name}" if path else name, unknown)
    for name in removed:
        del value[name]
