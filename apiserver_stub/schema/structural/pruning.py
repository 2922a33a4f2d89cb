"""Pruning: removal of the fields and nulls that a structural schema does not allow. No I/O."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema.structural.tree import METADATA_FIELDS, Node


def prune(obj: Object, node: Node, *, keeps_nulls: bool = False) -> list[str]:
    """Prune *obj*, a complete resource, in place; return the paths of the removed unknown fields.

    Null values of fields that are not nullable are removed too, unless a default will replace them or *keeps_nulls*.
    """
    pruning = _Pruning(keeps_nulls=keeps_nulls)
    pruning.run_fields(obj, node, "", resource=True, keeps=node.preserves_unknown)
    pruning.unknown.sort()
    return pruning.unknown


def prune_value(value: Any, node: Node) -> list[str]:
    """Prune *value*, a part of a resource such as a default; see :func:`prune`."""
    pruning = _Pruning()
    pruning.run(value, node, "")
    return pruning.unknown


class _Pruning:
    """One pass over a value."""

    def __init__(self, *, keeps_nulls: bool = False) -> None:
        self._keeps_nulls = keeps_nulls
        self.unknown: list[str] = []

    def run(self, value: Any, node: Node | None, path: str) -> None:
        if value.__class__ is dict:
            if node is None:
                self.unknown.extend(f"{path}.{name}" if path else name for name in value)
                value.clear()
            else:
                self.run_fields(value, node, path, resource=node.is_resource, keeps=node.preserves_unknown)
        elif value.__class__ is list:
            keeps = node is not None and node.preserves_unknown
            items = node.items if node is not None else None
            if items is None and keeps:
                return
            for index, item in enumerate(value):
                if item.__class__ in (dict, list):
                    self.run(item, items, f"{path}[{index}]")

    def run_fields(self, value: Object, node: Node, path: str, *, resource: bool, keeps: bool) -> None:
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
                            self.unknown.append(f"{path}.{name}" if path else name)
                    continue
                below = values
            if content is None:
                if not (self._keeps_nulls or below is None or below.nullable or below.default is not None):
                    removed.append(name)
            elif content.__class__ in (dict, list):
                self.run(content, below, f"{path}.{name}" if path else name)
        for name in removed:
            del value[name]
