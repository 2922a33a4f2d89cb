"""Field sets of values with a schema, and the differences between two values. No I/O."""

from __future__ import annotations

from typing import Any, NamedTuple

from apiserver_stub.schema.field_sets import LEAF, SELF, FieldSet
from apiserver_stub.schema.shapes import Form, Shape
from apiserver_stub.schema.typed.elements import group, require_type

_MAPS = frozenset((Form.OBJECT, Form.MAP))


class Comparison(NamedTuple):
    """Differences between an old and a new value, as disjoint sets."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet


def fields_of(value: Any, shape: Shape) -> FieldSet:
    """Return the fields that *value* sets: its leaves, and the items of lists and maps that merge.

    :raises InvalidElement: an item of a list lacks its key, or a value has the wrong type.
    """
    shape = shape.resolved(value)
    if shape.leaf:
        return LEAF
    if not value:
        return {}
    require_type(value, shape)
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

    :raises InvalidElement: an item of a list lacks its key, or a value has the wrong type.
    """
    if old == new:
        return Comparison({}, {}, {})
    shape = shape.resolved(old, new)
    if shape.leaf or (not old and not new):
        return Comparison({}, LEAF, {})
    for value in (old, new):
        if value:
            require_type(value, shape)
    found = Comparison({}, {}, {})
    if shape.form in _MAPS:
        _compare_fields(old or {}, new or {}, shape, found)
    else:
        _compare_lists(old or [], new or [], shape, found)
    return found


def _compare_fields(old: dict[str, Any], new: dict[str, Any], shape: Shape, found: Comparison) -> None:
    removed, _, added = found
    for name, before in old.items():
        if name not in new:
            removed[f"f:{name}"] = _everything(before, shape.child(name))
        elif before != (after := new[name]):
            _add(found, f"f:{name}", compare(before, after, shape.child(name)))
    for name, after in new.items():
        if name not in old:
            added[f"f:{name}"] = _everything(after, shape.child(name))


def _compare_lists(old: list[Any], new: list[Any], shape: Shape, found: Comparison) -> None:
    removed, modified, added = found
    olds, news = group(old, shape), group(new, shape)
    item_shape = _item(shape)
    for element, before in olds.items():
        after = news.get(element)
        if after is None:
            removed[element] = _all_of(before, item_shape)
        elif len(before) == 1 == len(after):
            _add(found, element, compare(before[0], after[0], item_shape))
        elif len(before) > 1 and len(after) > 1:  # Duplicate items are compared as one value.
            if before != after:
                modified[element] = LEAF
        else:
            removed[element], added[element] = _all_of(before, item_shape), _all_of(after, item_shape)
    for element, after in news.items():
        if element not in olds:
            added[element] = _all_of(after, item_shape)


def _add(found: Comparison, element: str, part: Comparison) -> None:
    for fields, below in zip(found, part, strict=True):
        if below:
            fields[element] = below


def _all_of(items: list[Any], shape: Shape) -> FieldSet:
    """Return all fields of the items of one path element; duplicate items are one leaf."""
    return LEAF if len(items) > 1 else _everything(items[0], shape)


def _everything(value: Any, shape: Shape) -> FieldSet:
    """Return *value* and all fields in it."""
    shape = shape.resolved(value)
    if shape.leaf or not value:
        return LEAF
    require_type(value, shape)
    fields: FieldSet = {SELF: {}}
    if shape.form in _MAPS:
        for name, content in value.items():
            below = shape.child(name).resolved(content)
            fields[f"f:{name}"] = LEAF if below.leaf or not content else _everything(content, below)
        return fields
    item_shape = _item(shape)
    for element, items in group(value, shape).items():
        fields[element] = _all_of(items, item_shape)
    return fields


def _item(shape: Shape) -> Shape:
    if shape.item is None:
        raise TypeError("a list that merges has items of one shape")
    return shape.item
