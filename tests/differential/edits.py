"""Edits of JSON objects: paths as JSON pointers, the difference of two objects, and both applied again. No I/O."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = Any


@dataclass(frozen=True)
class Edit:
    """Values to set and paths to remove, by JSON pointer (RFC 6901)."""

    set: dict[str, Json] = field(default_factory=dict)
    unset: tuple[str, ...] = ()

    def apply(self, obj: Json) -> Json:
        """Return a copy of *obj* with the edit applied; missing parents are created as objects."""
        result = copy.deepcopy(obj)
        for path in self.unset:
            remove(result, path)
        for path, value in self.set.items():
            if not path:
                result = copy.deepcopy(value)
            else:
                put(result, path, copy.deepcopy(value))
        return result


def split(path: str) -> list[str]:
    """Return the reference tokens of a JSON pointer."""
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def join(parent: str, token: str | int) -> str:
    """Return the JSON pointer of *token* below *parent*."""
    return f"{parent}/{str(token).replace('~', '~0').replace('/', '~1')}"


def put(obj: Json, path: str, value: Json) -> None:
    """Set the value at *path* in place; an index one past the end appends."""
    *parents, last = split(path)
    for token in parents:
        if isinstance(obj, list):
            obj = obj[int(token)]
        else:
            if not isinstance(obj.get(token), dict | list):
                obj[token] = {}
            obj = obj[token]
    if isinstance(obj, list):
        obj[int(last) : int(last) + 1] = [value]
    else:
        obj[last] = value


def remove(obj: Json, path: str) -> None:
    """Remove the value at *path* in place, if it exists."""
    *parents, last = split(path)
    for token in parents:
        obj = obj[int(token)] if isinstance(obj, list) else obj.get(token, {})
    if isinstance(obj, list):
        del obj[int(last)]
    elif isinstance(obj, dict):
        obj.pop(last, None)


def difference(before: Json, after: Json) -> Edit:
    """Return the edit that turns *before* into *after*; lists of another length are replaced as a whole."""
    changes: dict[str, Json] = {}
    removed: list[str] = []
    _compare("", before, after, changes, removed)
    return Edit(changes, tuple(removed))


def _compare(path: str, before: Json, after: Json, changes: dict[str, Json], removed: list[str]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        removed += [join(path, name) for name in before if name not in after]
        for name, value in after.items():
            if name not in before:
                changes[join(path, name)] = value
            else:
                _compare(join(path, name), before[name], value, changes, removed)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            _compare(join(path, index), one, other, changes, removed)
    elif type(before) is not type(after) or before != after:
        changes[path] = after


def walk(obj: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield every path of *obj* with its value, parents first."""
    yield path, obj
    if isinstance(obj, dict):
        for name, value in obj.items():
            yield from walk(value, join(path, name))
    elif isinstance(obj, list):
        for index, value in enumerate(obj):
            yield from walk(value, join(path, index))
