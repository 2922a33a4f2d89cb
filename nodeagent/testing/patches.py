"""Subset of JSON patch, merge patch and strategic merge patch for the fake API server."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from nodeagent.base.nulls import without_nulls
from nodeagent.contracts.api import PatchType
from nodeagent.errors import ApiError

_MERGE_KEYS: dict[str, str] = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "addresses": "type",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "volumesAttached": "name",
}
"""Merge keys of lists in strategic merge patches; other lists are replaced."""


def apply_patch(target: Any, patch: Mapping[str, Any] | list[Any], kind: PatchType) -> Any:
    """Return a copy of *target* with *patch* applied.

    :raises ApiError: 422, a JSON patch cannot be applied.
    """
    if kind is PatchType.JSON:
        return _json_patch(copy.deepcopy(target), list(patch))
    return _merge(copy.deepcopy(target), patch, strategic=kind is PatchType.STRATEGIC)


def _merge(target: Any, patch: Any, *, strategic: bool) -> Any:
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    if strategic and patch.get("$patch") == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    result: dict[str, Any] = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if strategic and key.startswith("$"):
            _directive(result, key, value)
        elif value is None:
            result.pop(key, None)
        elif strategic and isinstance(value, list) and key in _MERGE_KEYS:
            result[key] = _merge_list(result.get(key) or [], value, _MERGE_KEYS[key])
        else:
            result[key] = _merge(result.get(key), value, strategic=strategic)
    return result


def _merge_list(target: list[Any], patch: list[Any], by: str) -> list[Any]:
    if any(isinstance(item, Mapping) and item.get("$patch") == "replace" for item in patch):
        return [copy.deepcopy(item) for item in patch if "$patch" not in item]
    result = list(target)
    for item in patch:
        index = next((i for i, existing in enumerate(result) if existing.get(by) == item.get(by)), None)
        if item.get("$patch") == "delete":
            if index is not None:
                del result[index]
        elif index is None:
            result.append(without_nulls(copy.deepcopy(item)))
        else:
            result[index] = _merge(result[index], item, strategic=True)
    return result


def _directive(target: dict[str, Any], key: str, value: Any) -> None:
    action, _, name = key.partition("/")
    items = target.get(name)
    if not isinstance(items, list):
        return
    if action == "$deleteFromPrimitiveList":
        target[name] = [item for item in items if item not in value]
    elif action == "$setElementOrder":
        by = _MERGE_KEYS.get(name)
        order = [item.get(by) if isinstance(item, Mapping) else item for item in value]

        def rank(item: Any) -> int:
            key = item.get(by) if isinstance(item, Mapping) else item
            return order.index(key) if key in order else len(order)

        target[name] = sorted(items, key=rank)


def _json_patch(target: Any, operations: list[Any]) -> Any:
    for operation in operations:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        try:
            parent = target
            for part in parents:
                parent = parent[int(part)] if isinstance(parent, list) else parent[part]
            _apply(parent, last, operation)
        except (KeyError, IndexError, ValueError) as error:
            raise ApiError(f"failed to apply patch operation: {operation}", code=422, reason="Invalid") from error
    return target


def _apply(parent: Any, last: str, operation: Mapping[str, Any]) -> None:
    key: Any = last if not isinstance(parent, list) else len(parent) if last == "-" else int(last)
    match operation["op"]:
        case "add" if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(operation["value"]))
        case "add":
            parent[key] = copy.deepcopy(operation["value"])
        case "replace":
            parent[key]  # Raises an error if it does not exist.
            parent[key] = copy.deepcopy(operation["value"])
        case "remove":
            del parent[key]
        case "test":
            if parent[key] != operation["value"]:
                raise ValueError("test failed")
        case other:
            raise ApiError(f"unknown patch operation {other!r}", code=422, reason="Invalid")
