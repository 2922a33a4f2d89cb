"""JSON patch and JSON merge patch. No I/O.

Custom, since the errors of the ``jsonpatch`` package differ from those of kube-apiserver.
"""

from __future__ import annotations

import re
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.go_format import type_name
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, too_large, unprocessable
from nodeagent.base.nulls import without_nulls

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 << 20
"""Limit for the total of all copies of a patch, as few operations could double a value many times."""
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")


def apply_json_patch(document: Object, operations: Any) -> Any:
    """Return *document* after the operations of RFC 6902, with upstream's deviations.

    A missing field is read as null, by ``copy`` and ``test``; ``replace`` adds it. The text of a path before its first
    slash is ignored. Negative indices count from the end.

    :raises ApiError: 400 or 413, *operations* is not a valid list of operations; 422, one of them fails.
    """
    if operations is None:
        return objects.clone(document)
    if not isinstance(operations, list):
        raise _cannot_decode(operations, "[]handlers.jsonPatchOp")
    for operation in operations:
        if operation is not None and not isinstance(operation, dict):
            raise _cannot_decode(operation, "handlers.jsonPatchOp")
    if len(operations) > MAX_OPERATIONS:
        raise too_large(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")
    root: Any = objects.clone(document)
    room = MAX_COPIED_BYTES
    try:
        for operation in operations:
            if operation is not None and operation.get("op") == "replace" and operation.get("path") == "":
                root = _replacement(root, operation)
                continue
            room -= _apply_operation(root, operation or {})
            if room < 0:
                raise unprocessable(f"copies of a JSON patch are limited to {MAX_COPIED_BYTES} bytes in all")
        return root
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise unprocessable() from error


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """Return *document* after the merge patch of RFC 7386: objects merge, ``null`` deletes, other values replace.

    As upstream, nulls in the objects of a list are dropped, except where the list replaces an object.
    """
    if not isinstance(patch, dict):
        return objects.clone(patch)
    if not isinstance(document, dict):
        return without_nulls(patch)
    merged = dict(document)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(merged.get(key), dict):
            merged[key] = apply_merge_patch(merged[key], value)
        else:
            merged[key] = without_nulls(value)
    return merged


def _cannot_decode(value: Any, expected: str) -> ApiError:
    return bad_request(
        f"error decoding patch: json: cannot unmarshal {type_name(value)} into Go value of type {expected}"
    )


def _replacement(root: Any, operation: Object) -> Any:
    """Return the value that replaces the document; a scalar changes nothing."""
    value = operation["value"]
    return objects.clone(value) if isinstance(value, dict | list) else root


def _apply_operation(root: Any, operation: Object) -> int:
    """Apply *operation* and return the number of bytes that it copied within the document."""
    kind, path = operation["op"], operation["path"]
    match kind:
        case "add":
            _add(root, path, objects.clone(operation.get("value")))
        case "remove":
            _remove(root, path)
        case "replace":
            _find(root, path)
            _put(root, path, objects.clone(operation.get("value")))
        case "move":
            source = operation["from"]
            value = _find(root, source)
            _remove(root, source)
            _add(root, path, value)
        case "copy":
            value = _find(root, operation["from"])
            size = len(objects.encode(value)) if value is not None else 0
            if size <= MAX_COPIED_BYTES:
                _add(root, path, objects.clone(value))
            return size
        case "test":
            if not _same(root if path == "" else _find(root, path), operation["value"]):
                raise ValueError("test failed")
        case _:
            raise ValueError(f"unknown operation {kind}")
    return 0


def _same(one: Any, other: Any) -> bool:
    """Return whether both values are the same JSON; unlike with ``==``, true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def _parent(root: Any, path: str) -> tuple[Any, str]:
    """Return the object or list that contains the value at *path*, and the last part of the path."""
    _, *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in path.split("/"))
    holder = root
    for part in parents:
        holder = holder[_index(part, len(holder))] if isinstance(holder, list) else holder[part]
    if not isinstance(holder, dict | list):
        raise TypeError("parent is neither object nor array")
    return holder, last


def _index(part: str, length: int) -> int:
    if not _INDEX.fullmatch(part):
        raise ValueError(f"invalid index {part}")
    index = int(part)
    if not -length <= index < length:
        raise IndexError(part)
    return index if index >= 0 else index + length


def _find(root: Any, path: str) -> Any:
    """Return the value at *path*, ``None`` for a missing field."""
    holder, last = _parent(root, path)
    return holder[_index(last, len(holder))] if isinstance(holder, list) else holder.get(last)


def _put(root: Any, path: str, value: Any) -> None:
    holder, last = _parent(root, path)
    if isinstance(holder, list):
        holder[_index(last, len(holder))] = value
    else:
        holder[last] = value


def _add(root: Any, path: str, value: Any) -> None:
    holder, last = _parent(root, path)
    if isinstance(holder, list):
        holder.insert(len(holder) if last == "-" else _index(last, len(holder) + 1), value)
    else:
        holder[last] = value


def _remove(root: Any, path: str) -> None:
    holder, last = _parent(root, path)
    if isinstance(holder, list):
        del holder[_index(last, len(holder))]
    else:
        del holder[last]
