"""Field sets of values with a schema, and the differences between two values. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from apiserver_stub.schema.field_sets import LEAF, SELF, FieldSet
from apiserver_stub.schema.shapes import Form, Shape
from apiserver_stub.schema.typed.elements import group

_ABSENT: Any = object()
_MAPS = frozenset((Form.OBJECT, Form.MAP))


class Comparison(NamedTuple):
    """Differences between an old and a new value, as disjoint sets."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet


def fields_of(value: Any, shape: Shape) -> FieldSet:
    """Return the fields that *value* sets: its leaves, and the items of lists and maps that merge.

    :raises InvalidElement: an item of a list lacks its key.
    """
    if shape.leaf:
        return LEAF
    if not value:
        return {}
    fields: FieldSet = {}
    if shape.form in _MAPS:
        is_map = shape.form is Form.MAP
        for name, content in value.items():
            below = fields_of(content, shape.child(name))
            if is_map or content is None or content == {}:
                below = {**below, SELF: {}}
            if below:
                fields[f"f:{name}"] = below
        return fields
    item_shape = _item(shape)
    for element, items in group(value, shape).items():
        fields[element] = LEAF if len(items) > 1 else {SELF: {}, **fields_of(items[0], item_shape)}
    return fields


def compare(old: Any, new: Any, shape: Shape) -> Comparison:
    """Return the differences between *old* and *new*, two values of *shape*.

    :raises InvalidElement: an item of a list lacks its key.
    """
    if old == new:
        return Comparison({}, {}, {})
    if shape.leaf or (not old and not new):
        return Comparison({}, LEAF, {})
    if shape.form in _MAPS:
        before, after = old or {}, new or {}
        names = [*before, *(name for name in after if name not in before)]
        return _collect(
            (f"f:{name}", _compare_field(before.get(name, _ABSENT), after.get(name, _ABSENT), shape.child(name)))
            for name in names
        )
    olds, news = group(old or [], shape), group(new or [], shape)
    elements = [*olds, *(element for element in news if element not in olds)]
    item_shape = _item(shape)
    return _collect(
        (element, _compare_items(olds.get(element, []), news.get(element, []), item_shape)) for element in elements
    )


def _collect(parts: Iterable[tuple[str, Comparison]]) -> Comparison:
    found = Comparison({}, {}, {})
    for element, part in parts:
        for fields, below in zip(found, part, strict=True):
            if below:
                fields[element] = below
    return found


def _compare_field(old: Any, new: Any, shape: Shape) -> Comparison:
    if old is _ABSENT:
        return Comparison({}, {}, _everything(new, shape))
    if new is _ABSENT:
        return Comparison(_everything(old, shape), {}, {})
    return compare(old, new, shape)


def _compare_items(olds: list[Any], news: list[Any], shape: Shape) -> Comparison:
    """Return the differences between the items of one path element; duplicate items are compared as one value."""
    if len(olds) < 2 and len(news) < 2:
        return _compare_field(olds[0] if olds else _ABSENT, news[0] if news else _ABSENT, shape)
    if len(olds) > 1 and len(news) > 1:
        return Comparison({}, {} if olds == news else LEAF, {})
    if len(olds) > 1:
        return Comparison(LEAF, {}, _everything(news[0], shape) if news else {})
    return Comparison(_everything(olds[0], shape) if olds else {}, {}, LEAF)


def _everything(value: Any, shape: Shape) -> FieldSet:
    """Return *value* and all fields in it."""
    if shape.leaf or not value:
        return LEAF
    fields: FieldSet = {SELF: {}}
    if shape.form in _MAPS:
        for name, content in value.items():
            fields[f"f:{name}"] = _everything(content, shape.child(name))
        return fields
    item_shape = _item(shape)
    for element, items in group(value, shape).items():
        fields[element] = LEAF if len(items) > 1 else _everything(items[0], item_shape)
    return fields


def _item(shape: Shape) -> Shape:
    if shape.item is None:
        raise TypeError("a list that merges has items of one shape")
    return shape.item
