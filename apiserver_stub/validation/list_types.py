"""Validation of the list types ``set`` and ``map`` in custom resources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.schema.structural.tree import Node
from apiserver_stub.validation.schema_values import causes


def validate_list_types(obj: Object, node: Node) -> list[Cause]:
    """Return an error for each duplicate item of a set, and for each duplicate key of a list of type map."""
    found: list[Cause] = []
    _validate_fields(obj, node, "", found)
    return found


def _validate_fields(value: Object, node: Node, path: str, found: list[Cause]) -> None:
    for name, content in value.items():
        below = node.properties.get(name)
        if below is not None:
            _validate(content, below, f"{path}.{name}" if path else name, found)
        elif node.values is not None:
            _validate(content, node.values, f"{path}[{name}]", found)


def _validate(value: Any, node: Node, path: str, found: list[Cause]) -> None:
    if not node.has_keyed_lists:
        return
    if value.__class__ is dict:
        _validate_fields(value, node, path, found)
    elif value.__class__ is list:
        if node.list_type == "set":
            found += [causes.duplicate(f"{path}[{index}]", value[index]) for index in _repeats(value)]
        elif node.list_type == "map":
            found += _validate_map(value, node.list_keys, path)
        if node.items is not None:
            for index, item in enumerate(value):
                _validate(item, node.items, f"{path}[{index}]", found)


def _validate_map(items: Sequence[Any], keys: Sequence[str], path: str) -> list[Cause]:
    for index, item in enumerate(items):
        if item is not None and item.__class__ is not dict:
            detail = "must be an object for an array of list-type map"
            return [causes.invalid(f"{path}[{index}]", item, detail)]
    values = [{name: item[name] for name in keys if name in item} if item is not None else {} for item in items]
    return [causes.duplicate(f"{path}[{index}]", values[index]) for index in _repeats(values)]


def _repeats(values: Sequence[Any]) -> Iterable[int]:
    """Yield the index of the first repetition of each repeated value."""
    counts: dict[bytes, int] = {}
    for index, value in enumerate(values):
        key = objects.encode(value)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] == 2:
            yield index
