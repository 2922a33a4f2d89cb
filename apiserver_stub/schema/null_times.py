"""Omission of unset creation timestamps, which earlier releases show as null. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema.shapes import Form, Shape
from nodeagent.base.release import Release

OMITTED_SINCE = Release(1, 34)
"""First release whose JSON has no ``creationTimestamp`` instead of null, such as in the metadata of pod templates."""

_Step = Callable[[Any], None]
_MAX_DEPTH = 12
"""Deeper objects, which occur only in recursive shapes, are not changed."""


def omit_null_times(obj: Object, shape: Shape | None) -> None:
    """Remove each ``creationTimestamp`` that is null from the metadata of *obj* and of embedded objects, in place."""
    if shape is not None and (step := _step(shape)) is not None:
        step(obj)


def unset_creation_time(*, shows_null: bool) -> Object:
    """Return the metadata of an object that was never created."""
    return {"creationTimestamp": None} if shows_null else {}


@cache
def _step(shape: Shape, depth: int = 0) -> _Step | None:
    """Return the function that changes values of *shape*, ``None`` if they contain no metadata."""
    if depth > _MAX_DEPTH:
        return None
    if shape.form in (Form.LIST, Form.MAP):
        below = _step(shape.item, depth + 1) if shape.item is not None else None
        return below and _each(below, is_map=shape.form is Form.MAP)
    if shape.form is not Form.OBJECT:
        return None
    if shape.name == "ObjectMeta":
        return _omit
    steps = {name: step for name, member in shape.members.items() if (step := _step(member, depth + 1)) is not None}
    return _members(steps) if steps else None


def _omit(metadata: Any) -> None:
    if metadata.get("creationTimestamp", "") is None:
        del metadata["creationTimestamp"]


def _members(steps: dict[str, _Step]) -> _Step:
    def run(value: Any) -> None:
        for name, step in steps.items():
            if content := value.get(name):
                step(content)

    return run


def _each(step: _Step, *, is_map: bool) -> _Step:
    def run(values: Any) -> None:
        for value in values.values() if is_map else values:
            step(value)

    return run
