"""Merge of values with a schema, and removal of fields from them. No I/O."""

from __future__ import annotations

from typing import Any

from apiserver_stub.schema.field_sets import SELF, FieldSet
from apiserver_stub.schema.shapes import Form, Shape
from apiserver_stub.schema.typed.elements import element_of

_MAPS = frozenset((Form.OBJECT, Form.MAP))


def merge(live: Any, config: Any, shape: Shape) -> Any:
    """Return *live* with the fields that *config* sets; the items of its lists keep their order.

    :raises InvalidElement: an item of a list lacks its key.
    """
    shape = shape.resolved(live, config)
    if shape.leaf:
        return config
    if not live or not config:
        return live or config
    if shape.form in _MAPS:
        merged = dict(live)
        for name, value in config.items():
            merged[name] = merge(live[name], value, shape.child(name)) if name in live else value
        return merged
    return _merge_lists(live, config, shape)


def _merge_lists(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    """Return the items of both lists, those of *live* as early as the order of the shared items allows.

    Duplicate items in *live* are replaced by the one of *config*, or kept if it has none.
    """
    lefts = [element_of(item, shape) for item in live]
    rights = [element_of(item, shape) for item in config]
    before: dict[str, Any] = {}
    for element, item in zip(lefts, live, strict=True):
        before[element] = None if element in before else item
    after = dict(zip(rights, config, strict=True))
    shared = [element for element in reversed(rights) if element in before]
    item_shape = shape.item or shape
    merged: set[str] = set()
    result: list[Any] = []
    left = right = 0
    while left < len(lefts) or right < len(rights):
        if left < len(lefts):
            element = lefts[left]
            if element not in after:
                result.append(live[left])
                left += 1
                continue
            is_next = right < len(rights) and element == rights[right]
            if not is_next and shared and shared[-1] != element:
                left += 1  # Another shared item comes first.
                continue
            if is_next or element in merged:
                left += 1
        if right < len(rights):
            element = rights[right]
            merged.add(element)
            old = before.get(element)
            result.append(after[element] if old is None else merge(old, after[element], item_shape))
            right += 1
            if shared and shared[-1] == element:
                shared.pop()
    return result


def remove(value: Any, fields: FieldSet, shape: Shape) -> Any:
    """Return *value* without *fields*; objects and lists that become empty are null."""
    if not isinstance(value, dict | list):
        return value
    shape = shape.resolved(value)
    if not value or shape.leaf:
        return None
    if isinstance(value, dict):
        left = {}
        for name, content in value.items():
            below = fields.get(f"f:{name}")
            if not below:
                left[name] = content
            elif SELF not in below:
                left[name] = remove(content, below, shape.child(name))
        return left or None
    item_shape = shape.item or shape
    items = []
    for item in value:
        below = fields.get(element_of(item, shape))
        if not below:
            items.append(item)
        elif SELF not in below:
            items.append(remove(item, below, item_shape))
    return items or None
