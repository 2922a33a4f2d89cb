"""Strategic merge patch: lists merge by a key that the kind declares, directives express other changes. No I/O.

``$patch: delete | replace``, ``$retainKeys``, ``$setElementOrder/<list>``, ``$deleteFromPrimitiveList/<list>``. Merged
lists have the order of upstream: ``$setElementOrder``, else the order of the patch, precedes the order of the object,
and new items come before those that only the object has.

Custom, since no package implements it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.go_format import go_value
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, unprocessable
from apiserver_stub.schema.shapes import UNKNOWN, Form, Shape

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder"
_DELETE_PRIMITIVE = "$deleteFromPrimitiveList"
_BAD_ORDER = "invalid patch format of setElementOrder list"
_GO_TYPES = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    type(None): "%!s(<nil>)",
}


def apply_strategic_patch(document: Object, patch: Any, shape: Shape) -> Object:
    """Return *document*, which has the given *shape*, after *patch*; neither argument is changed.

    :raises ApiError: 400, 422 or 500, *patch* is not an object or a directive in it is invalid.
    """
    if not isinstance(patch, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    return _merge_object(objects.clone(document), objects.clone(patch), shape)


def _merge_object(original: Any, patch: Object, shape: Shape) -> Object:
    """Return *original* after *patch*; an object is changed in place and then shares values with *patch*."""
    if _PATCH in patch:
        directive = patch[_PATCH]
        if directive == "replace":
            return {key: value for key, value in patch.items() if key != _PATCH}
        if directive == "delete":
            return {}
        raise _unknown_directive(directive, patch)
    merged: Object = original if isinstance(original, dict) else {}
    if _RETAIN in patch:
        _retain(merged, patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        _merge_ordered(merged, patch, key, shape)
    for name, value in patch.items():
        key, deletes = name, name.startswith(_DELETE_PRIMITIVE)
        if deletes:
            key = _list_of(name, "invalid patch format of primitive list")
        if value is None:
            merged.pop(key, None)
        elif key not in merged or type(merged[key]) is not type(value):
            if not deletes:
                _discard_nulls(value)
                _put(merged, key, value)
        elif isinstance(value, dict):
            member = _member(shape, key)
            replaces = key in shape.replaced
            merged[key] = value if replaces else _merge_object(merged[key], value, member)
        elif isinstance(value, list):
            merged[key] = _merge_field(merged[key], value, _member(shape, key), deletes=deletes)
        else:
            merged[key] = value
    return merged


def _retain(original: Object, patch: Object) -> None:
    """Remove the directive ``$retainKeys`` from *patch*, and all fields that it does not list from *original*."""
    retained = patch.pop(_RETAIN)
    named = isinstance(retained, list) and all(
        value is None or key.startswith((_DELETE_PRIMITIVE, _ORDER)) or key in retained for key, value in patch.items()
    )
    if not named:
        raise bad_request("invalid patch format of retainKeys")
    for key in [key for key in original if key not in retained]:
        del original[key]


def _member(shape: Shape, name: str) -> Shape:
    """Return the shape of a field that both objects have.

    :raises ApiError: 500, fields of it are not declared: upstream cannot merge lists and objects within maps.
    """
    if shape.form is Form.OBJECT and name in shape.members:
        return shape.members[name]
    if shape.form is Form.MAP:
        raise _failed("merging an object in json but data type is not struct, instead is: map")
    owner = shape.name or "Unknown"
    raise _failed(f'unable to find api field in struct {owner} for the json field "{name}"')


def _put(merged: Object, key: str, value: Any) -> None:
    kept, keeps = _without_directives(value)
    if keeps:
        merged[key] = kept
    else:
        merged.pop(key, None)


def _without_directives(value: Any) -> tuple[Any, bool]:
    """Return *value* without the directives in it, and whether it is not a directive itself."""
    if isinstance(value, dict):
        if _PATCH in value:
            return None, False
        kept = {}
        for key, content in value.items():
            inner, keeps = _without_directives(content)
            if keeps:
                kept[key] = inner
        return kept, True
    if isinstance(value, list):
        return [kept for kept, keeps in map(_without_directives, value) if keeps], True
    return value, True


def _discard_nulls(value: Any) -> None:
    if isinstance(value, dict):
        for key in [key for key, content in value.items() if content is None]:
            del value[key]
        for content in value.values():
            _discard_nulls(content)
    elif isinstance(value, list):
        for content in value:
            _discard_nulls(content)


def _merge_ordered(original: Object, patch: Object, directive: str, shape: Shape) -> None:
    """Merge the list that *directive* of *patch* orders, and remove both from *patch*."""
    order, name = patch.pop(directive), _list_of(directive, _BAD_ORDER)
    _require_list(order)
    for holder in (original, patch):
        if name in holder:
            _require_list(holder[name])
    old, new = original.get(name), patch.get(name)
    member = _member(shape, name)
    key = member.patch_merge_key
    _check_order(new or [], order, key)
    if old is None and new is None:
        return
    if new is None:
        merged = old
    elif old is None:
        merged, _ = _without_directives(new)
    else:
        merged = _merge_field(old, new, member, deletes=False)
    kind = _element_type(old or [], new or [])
    original[name] = _ordered(merged or [], order, old or [], key, kind)
    patch.pop(name, None)


def _check_order(items: list[Any], order: list[Any], key: str) -> None:
    """Require that *order* contains all *items* of a patch except deletions, in the same order."""
    if not items or not order:
        return
    kept = items
    if key:
        for item in items:
            _require_object(item)
        kept = [item for item in items if item.get(_PATCH) != "delete"]
    left, entries = list(kept), list(order)
    while left and entries:  # As upstream, a directive after the last entry is an error.
        if isinstance(left[0], dict) and _PATCH in left[0]:
            left.pop(0)
            continue
        entry = entries.pop(0)
        if _same(_key_of(left[0], key), _key_of(entry, key)) if key else _same(left[0], entry):
            left.pop(0)
    if left:
        raise _failed(
            f"The order in patch list:\n{go_value(items)}\n doesn't match {_ORDER} list:\n{go_value(order)}\n"
        )


def _merge_field(old: list[Any], new: list[Any], shape: Shape, *, deletes: bool) -> list[Any]:
    if "merge" not in shape.patch_strategy.split(",") and not deletes:
        return new
    if not old and not new:
        return old
    kind, key = _element_type(old, new), shape.patch_merge_key
    if kind is not dict:
        if deletes:
            return [item for item in old if not _contains(new, item)]
        merged: list[Any] = []
        for item in (*old, *new):
            if not _contains(merged, item):
                merged.append(item)
        return _ordered(merged, new, old, key, kind)
    if not key:
        raise _failed("cannot merge lists without merge key for struct")
    kept, new, replaces = _follow_directives(old, new, key)
    live = new if replaces else old[:kept]
    merged = list(live)
    for item in () if replaces else new:
        value = _key_of(item, key)
        at = _find(merged, key, value)
        if at is not None:
            merged[at] = _merge_object(merged[at], item, shape.item or UNKNOWN)
            continue
        if len(merged) < len(old):
            old[len(merged)] = item
        merged.append(item)
    return _ordered(merged, [] if replaces else new, live, key, kind)


def _follow_directives(old: list[Any], new: list[Any], key: str) -> tuple[int, list[Any], bool]:
    """Return the number of remaining items of *old*, the items of *new* without directives, and whether these replace.

    The remaining items move to the start of *old*, whose length does not change: upstream derives the order of the
    object from the list in this state, in which new items have the positions of deleted ones.
    """
    kept, items = len(old), list[Any]()
    replaces = False
    for item in new:
        if _PATCH not in item:
            items.append(item)
            continue
        match item[_PATCH]:
            case "delete":
                value = _key_of(item, key)
                while (at := _find(old[:kept], key, value)) is not None:
                    old[at : kept - 1] = old[at + 1 : kept]
                    kept -= 1
            case "replace":
                replaces = True
            case "merge":
                raise _failed("merging lists cannot yet be specified in the patch")
            case other:
                raise _unknown_directive(other, item)
    return kept, items, replaces


def _ordered(items: list[Any], order: list[Any], live: list[Any], key: str, kind: type) -> list[Any]:
    """Return *items*, merging those in *order*, sorted by it, with the others, sorted by *live*.

    Another item comes before the first item in *order* that follows it in *live*.
    """
    if key:
        named = [item for item in items if _find(order, key, _key_of(item, key)) is not None]
        others = [item for item in items if _find(order, key, _key_of(item, key)) is None]
    else:
        named = [item for item in items if _contains(order, item)]
        others = [item for item in items if not _contains(order, item)]
    named, others = _sorted(named, order, key, kind), _sorted(others, live, key, kind)
    result: list[Any] = []
    while named and others:
        mine, theirs = _index(live, others[0], key, kind), _index(live, named[0], key, kind)
        result.append(others.pop(0) if 0 <= mine < theirs else named.pop(0))
    return result + named + others


def _sorted(items: list[Any], order: list[Any], key: str, kind: type) -> list[Any]:
    removed: list[Any] = []
    if kind is dict:
        for item in (*items, *order):
            _key_of(item, key)
        removed = [item for item in items if item.get(_PATCH) == "delete"]
        items = [item for item in items if item.get(_PATCH) != "delete"]
    return sorted(items, key=lambda item: _index(order, item, key, kind)) + removed


def _index(items: list[Any], item: Any, key: str, kind: type) -> int:
    """Return the index of the first of *items* that equals *item* or has its key, -1 for none."""
    for at, other in enumerate(items):
        if kind is not dict and _same(item, other):
            return at
        if kind is dict and isinstance(other, dict) and _same(item.get(key), other.get(key)):
            return at
    return -1


def _find(items: list[Any], key: str, value: Any) -> int | None:
    for at, item in enumerate(items):
        if not isinstance(item, dict):
            raise _failed(f"value for key {at} is not a map")
        if key in item and _same(item[key], value):
            return at
    return None


def _contains(items: Sequence[Any], value: Any) -> bool:
    return any(_same(item, value) for item in items)


def _same(one: Any, other: Any) -> bool:
    """Return whether both values are the same; unlike with ``==``, true is not 1, and 1 is not 1.0.

    :raises ApiError: 500, they are lists or objects, which upstream cannot compare.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, dict | list):
        raise _failed(f"runtime error: comparing uncomparable type {_GO_TYPES[type(one)]}")
    return bool(one == other)


def _element_type(*lists: list[Any]) -> type:
    """Return the common type of all items.

    :raises ApiError: 422 for lists of lists, 500 for different types or no items.
    """
    types = [type(item) for items in lists for item in items]
    if not types:
        raise _failed("no elements in any of the given slices")
    if types[0] is list:
        raise unprocessable()
    if types[0] is type(None) or any(found is not types[0] for found in types):
        raise _failed(f"list element types are not identical: {go_value(list(lists))}")
    return types[0]


def _key_of(item: Any, key: str) -> Any:
    _require_object(item)
    if key not in item:
        raise _failed(f"map: {go_value(item)} does not contain declared merge key: {key}")
    return item[key]


def _list_of(directive: str, problem: str) -> str:
    prefix, slash, name = directive.partition("/")
    if not slash or prefix not in (_ORDER, _DELETE_PRIMITIVE):
        raise bad_request(problem)
    return name


def _require_list(value: Any) -> None:
    if not isinstance(value, list):
        raise _failed(f"expected a {_GO_TYPES[list]}, but received a {_GO_TYPES[type(value)]}")


def _require_object(value: Any) -> None:
    if not isinstance(value, dict):
        raise _failed(f"expected a {_GO_TYPES[dict]}, but received a {_GO_TYPES[type(value)]}")


def _unknown_directive(directive: Any, patch: Object) -> ApiError:
    shown = go_value(directive)
    if isinstance(directive, bool | int | float):
        shown = f"%!s({_GO_TYPES[type(directive)]}={shown})"
    elif directive is None:
        shown = _GO_TYPES[type(None)]
    return _failed(f"unknown patch type: {shown} in map: {go_value(patch)}")


def _failed(message: str) -> ApiError:
    """Return the 500 error with which upstream reports most patches that it cannot merge."""
    return ApiError(500, "", message)
