"""Sets of fields as ``metadata.managedFields`` writes them, and how objects differ in terms of such sets. Pure.

A set is a tree of path elements: ``f:name`` for members, ``k:{...}`` for items told apart by keys, ``v:...`` for items
of a set of scalars; ``.`` in a node says that the place itself belongs to the set. The wire form writes a node that
holds nothing but itself as ``{}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from apiserver_stub.objects import Object
from apiserver_stub.schema import KEY_DEFAULTS, Form, Shape

FieldSet = dict[str, "FieldSet"]

SELF = "."
_ELEMENTS = frozenset(["f:", "k:", "v:", "i:"])
LEAF: FieldSet = {SELF: {}}
"""A place without anything below; shared, so never changed."""
_UNOWNED = frozenset(
    [
        "creationTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ]
)
_encode = msgspec.json.Encoder(order="deterministic").encode


class Unmergeable(ValueError):
    """An item of a list that merges cannot be told apart from the others."""


# The wire


def decode(wire: Any) -> FieldSet:
    """Return the set that *wire* writes.

    :raises ValueError: it is no such set.
    """
    if not isinstance(wire, dict):
        raise ValueError("a set of fields is an object")  # noqa: TRY004 - the caller handles one kind of error
    found: FieldSet = {}
    for element, below in wire.items():
        if element == SELF:
            found[SELF] = {}
        elif element[:2] in _ELEMENTS:
            if element[0] != "f":
                _check_item(element)
            found[element] = decode(below) if below else LEAF
        else:
            raise ValueError(f"{element} is no path element")
    return found


def _check_item(element: str) -> None:
    try:
        value = msgspec.json.decode(element[2:])
    except msgspec.DecodeError as error:
        raise ValueError(f"{element} is no path element") from error
    if (element[0] == "k") is not isinstance(value, dict):
        raise ValueError(f"{element} is no path element")


def encode(fields: FieldSet) -> Object:
    """Return *fields* as the wire has them, sorted."""
    return {
        element: {} if element == SELF or (len(below) == 1 and SELF in below) else encode(below)
        for element, below in sorted(fields.items())
    }


# Sets


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in either."""
    if not one:
        return other
    if not other or one is other:
        return one
    merged = dict(one)
    for element, below in other.items():
        merged[element] = union(one[element], below) if element in one else below
    return merged


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in *one* and not in *other*."""
    if not other:
        return one
    found: FieldSet = {}
    for element, below in one.items():
        if element == SELF:
            if SELF not in other:
                found[SELF] = below
        elif element not in other:
            found[element] = below
        elif left := difference(below, other[element]):
            found[element] = left
    return found


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in both."""
    found: FieldSet = {}
    for element, below in one.items():
        if element not in other:
            continue
        if element == SELF:
            found[SELF] = below
        elif both := intersection(below, other[element]):
            found[element] = both
    return found


def paths(fields: FieldSet, path: str = "") -> Iterator[str]:
    """Yield every place in *fields* as messages write it: ``.spec.containers[name="c"].image``."""
    for element, below in sorted(fields.items()):
        if element == SELF:
            yield path
        else:
            yield from paths(below, path + shown_element(element))


def shown_element(element: str) -> str:
    """Return a path element as messages show it: ``.name``, ``[key="value"]`` or ``[="value"]``."""
    kind, text = element[:1], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        pairs = sorted(msgspec.json.decode(text).items())
        return "[" + ",".join(f"{name}={_encode(value).decode()}" for name, value in pairs) + "]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


# Objects


def owned(obj: Object, shape: Shape) -> FieldSet:
    """Return the fields that applying *obj* takes: its leaves, and the items of lists that merge.

    :raises Unmergeable: an item lacks its key or comes twice.
    """
    return _owned_members(_claimable(obj), shape)


def added(obj: Object, old: Object, shape: Shape) -> tuple[FieldSet, FieldSet]:
    """Return the fields of *obj* that *old* lacks or has otherwise, and those of *old* that *obj* lacks."""
    return _compare_members(_claimable(old), _claimable(obj), shape)


def _claimable(obj: Object) -> Object:
    """Return *obj* without what nobody can own."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _UNOWNED}
    rest = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
    rest["metadata"] = metadata
    return rest


def _owned_members(obj: Object, shape: Shape) -> FieldSet:
    found: FieldSet = {}
    is_map = shape.form is not Form.OBJECT
    for name, value in obj.items():
        member = shape.child(name)
        if value is None or value == {} or _is_leaf(member, value):
            if not (name == "metadata" and value == {}):
                found["f:" + name] = LEAF
            continue
        below = _owned_members(value, member) if isinstance(value, dict) else _owned_items(value, member)
        if is_map:
            below = {**below, SELF: {}}
        if below:
            found["f:" + name] = below
    return found


def _owned_items(items: list[Any], shape: Shape) -> FieldSet:
    found: FieldSet = {}
    item_shape = shape.item
    for element, item in by_element(items, shape).items():
        if shape.is_set or item_shape is None or not isinstance(item, dict):
            found[element] = LEAF
        else:
            found[element] = {SELF: {}, **({} if item_shape.leaf else _owned_members(item, item_shape))}
    return found


def _compare_members(old: Object, new: Object, shape: Shape) -> tuple[FieldSet, FieldSet]:
    changed: FieldSet = {}
    removed: FieldSet = {}
    for name, value in new.items():
        if name not in old:
            changed["f:" + name] = _everything(value, shape.child(name))
        elif old[name] != value:
            more, less = _compare(old[name], value, shape.child(name))
            if more:
                changed["f:" + name] = more
            if less:
                removed["f:" + name] = less
    for name in old.keys() - new.keys():
        removed["f:" + name] = _everything(old[name], shape.child(name))
    return changed, removed


def _compare(old: Any, new: Any, shape: Shape) -> tuple[FieldSet, FieldSet]:
    if old is None and not _is_leaf(shape, new):
        return {element: below for element, below in _everything(new, shape).items() if element != SELF}, {}
    if _is_leaf(shape, new) or _is_leaf(shape, old) or type(old) is not type(new):
        return LEAF, {}
    if isinstance(new, dict):
        return _compare_members(old, new, shape)
    changed: FieldSet = {}
    removed: FieldSet = {}
    try:
        before, after = by_element(old, shape), by_element(new, shape)
    except Unmergeable:
        return LEAF, {}
    item_shape = shape.item or shape
    for element, item in after.items():
        if element not in before:
            changed[element] = _everything(item, item_shape)
        elif before[element] != item:
            more, less = _compare(before[element], item, item_shape)
            if more:
                changed[element] = more
            if less:
                removed[element] = less
    for element in before.keys() - after.keys():
        removed[element] = _everything(before[element], item_shape)
    return changed, removed


def _everything(value: Any, shape: Shape) -> FieldSet:
    """Return *value* and all that is in it."""
    if not value or _is_leaf(shape, value):
        return LEAF
    found: FieldSet = {SELF: {}}
    if isinstance(value, dict):
        for name, content in value.items():
            found["f:" + name] = _everything(content, shape.child(name))
        return found
    try:
        items = by_element(value, shape)
    except Unmergeable:
        return LEAF
    for element, item in items.items():
        found[element] = _everything(item, shape.item or shape)
    return found


def _is_leaf(shape: Shape, value: Any) -> bool:
    if shape.form is Form.ANY:
        return not isinstance(value, dict)
    return shape.leaf or not isinstance(value, dict | list)


def by_element(items: list[Any], shape: Shape, *, keeps_repeats: bool = False) -> dict[str, Any]:
    """Return the *items* of a list that merges by their path elements, in order.

    :param keeps_repeats: return an item that comes twice once, as ``None``; no configuration merges with it.
    :raises Unmergeable: an item lacks its key or comes twice.
    """
    found: dict[str, Any] = {}
    for index, item in enumerate(items):
        element = _element_of(item, index, shape)
        if element in found:
            if not keeps_repeats:
                raise Unmergeable(f"duplicate entries for key {shown_element(element)}")
            found[element] = None
        else:
            found[element] = item
    return found


def _element_of(item: Any, index: int, shape: Shape) -> str:
    if shape.is_set:
        if item is None:
            raise Unmergeable(f"element {index}: associative list without keys has an element that's an explicit null")
        return "v:" + _encode(item).decode()
    if not isinstance(item, dict):
        what = "a null element" if item is None else "non-map elements"
        raise Unmergeable(f"element {index}: associative list with keys may not have {what}")
    defaults = shape.item.always if shape.item is not None else {}
    key = {}
    for name in shape.keys:
        if name in item:
            key[name] = item[name]
        elif (default := defaults.get(name, KEY_DEFAULTS.get(name))) is not None:
            key[name] = default
        else:
            raise Unmergeable(
                f"element {index}: associative list with keys has an element that omits key field "
                f'"{name}" (and doesn\'t have default value)'
            )
    return "k:" + _encode(key).decode()


# Merging


def merge(live: Any, config: Any, shape: Shape) -> Any:
    """Return *live* with the values of *config*; null replaces only what has one owner."""
    if live is None or _is_leaf(shape, live if config is None else config):
        return config
    if config is None:
        return live or config
    if type(live) is not type(config):
        return config
    if isinstance(config, dict):
        whole = dict(live)
        for name, value in config.items():
            whole[name] = merge(live[name], value, shape.child(name)) if name in live else value
        return whole
    return _merge_lists(live, config, shape)


def _merge_lists(live: list[Any], config: list[Any], shape: Shape) -> list[Any]:
    """Return the items of both: those of *config* in its order, those of only *live* as early as their own allows."""
    before, after = by_element(live, shape, keeps_repeats=True), by_element(config, shape)
    lefts, rights = [_element_of(item, index, shape) for index, item in enumerate(live)], list(after)
    item_shape = shape.item or shape
    shared = [element for element in reversed(rights) if element in before]
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
            if not is_next and right < len(rights) and shared and shared[-1] != element:
                left += 1  # Another shared item comes first.
                continue
            if is_next or element in merged:
                left += 1
        if right < len(rights):
            element = rights[right]
            merged.add(element)
            result.append(merge(before.get(element), after[element], item_shape))
            right += 1
            if shared and shared[-1] == element:
                shared.pop()
    return result


def remove(obj: Any, fields: FieldSet, kept: FieldSet, shape: Shape) -> Any:
    """Return *obj* without the places in *fields*, except those above something in *kept*; emptied ones go too."""
    if isinstance(obj, dict):
        left: Object = {}
        for name, value in obj.items():
            element = "f:" + name
            if element not in fields:
                left[name] = value
                continue
            below, stays = fields[element], kept.get(element, {})
            if SELF in below and not stays:
                continue
            content = remove(value, below, stays, shape.child(name)) if isinstance(value, dict | list) else value
            if content or not isinstance(value, dict | list) or not value or SELF in stays:
                left[name] = content
        return left
    if not isinstance(obj, list):
        return obj
    items = []
    for element, item in by_element(obj, shape).items():
        if element not in fields:
            items.append(item)
            continue
        below, stays = fields[element], kept.get(element, {})
        if SELF in below and not stays:
            continue
        items.append(remove(item, below, stays, shape.item or shape))
    return items
