"""Random patches of all media types. No I/O."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.api_fuzz.values import Values
from tests.differential.edits import join
from tests.differential.schema import Shape

APPLY = "application/apply-patch+yaml"
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
    APPLY,
)
_OPERATIONS = ("add", "replace", "remove", "test", "copy", "move", "add", "replace", "x")


def patch_body(values: Values, kind: str, example: dict[str, Any], changed: Any, shape: Shape) -> bytes:
    """Return a patch of type *kind* that turns *example* into something like *changed*."""
    if values.chance(0.03):
        return json.dumps(values.anything()).encode()
    if kind == "application/json-patch+json":
        paths = _paths(example)
        count = values.choice.choice((0, 1, 1, 2, 4))
        return json.dumps([_operation(values, paths, shape) for _ in range(count)]).encode()
    if kind == APPLY:
        return (
            yaml.safe_dump(changed).encode("utf-8", "replace") if values.chance(0.2) else json.dumps(changed).encode()
        )
    patch = _excerpt(values, changed) if values.chance(0.8) else changed
    if kind.startswith("application/strategic") and isinstance(patch, dict):
        _add_directives(values, patch, 0)
    return json.dumps(patch).encode()


def _operation(values: Values, paths: list[str], shape: Shape) -> Any:
    choose = values.choice.choice
    if values.chance(0.03):
        return values.anything()
    name = choose(_OPERATIONS)
    operation: dict[str, Any] = {"op": name, "path": choose(paths) if values.chance(0.9) else values.string()}
    if values.chance(0.2):
        operation["path"] += choose(("/-", "/0", "/99", "/-1", "/a", "/01", "/~2", "/"))
    if name in ("add", "replace", "test", "x"):
        operation["value"] = values.anything() if values.chance(0.6) else values.of(shape, 3)
    if name in ("copy", "move"):
        operation["from"] = choose(paths) if values.chance(0.95) else values.anything()
    if values.chance(0.02):
        del operation[choose(list(operation))]
    return operation


def _paths(value: Any, path: str = "", depth: int = 0) -> list[str]:
    found = [path]
    if depth < 8:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for step, below in items:
            found += _paths(below, join(path, step), depth + 1)
    return found


def _excerpt(values: Values, value: Any, depth: int = 0) -> Any:
    """Return a part of *value*, with some fields null."""
    if not isinstance(value, dict) or depth > 6:
        return value
    return {
        name: None if values.chance(0.05) else _excerpt(values, below, depth + 1)
        for name, below in value.items()
        if values.chance(0.6)
    }


def _add_directives(values: Values, patch: dict[str, Any], depth: int) -> None:
    """Add directives of strategic merge patches in place."""
    choose = values.choice.choice
    if values.chance(0.15):
        patch["$patch"] = choose(("replace", "delete", "merge", "x", 1, None))
    if values.chance(0.1):
        patch["$retainKeys"] = choose((list(patch), [], "x", [1], None))
    for name, below in list(patch.items()):
        if isinstance(below, dict) and depth < 6:
            _add_directives(values, below, depth + 1)
        elif isinstance(below, list):
            if values.chance(0.15):
                below.append(
                    choose(({"$patch": "replace"}, {"$patch": "delete"}, {"$patch": "delete", "name": "c"}, 7))
                )
            if values.chance(0.1):
                patch[f"$setElementOrder/{name}"] = choose((below, [], "x", [{"name": "c"}], [None], None))
            if values.chance(0.1):
                patch[f"$deleteFromPrimitiveList/{name}"] = choose((below, ["a"], "x", [{}], None))
