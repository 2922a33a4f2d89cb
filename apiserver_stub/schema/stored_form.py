"""Normalization of objects before storage, as upstream's format has no empty lists. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema.shapes import Form, Shape

_Step = Callable[[Any], None]


def settle(obj: Object, shape: Shape | None) -> None:
    """Replace the empty lists and maps of *obj* that are always present by null, in place.

    Call it after the managed fields are updated, as a field manager can own an empty list.
    """
    if shape is not None and (step := _step(shape)) is not None:
        step(obj)


@cache
def _step(shape: Shape, depth: int = 0) -> _Step | None:
    """Return the function that normalizes values of *shape*, ``None`` if they never change."""
    if shape.form in (Form.LIST, Form.MAP):
        return _each(shape, depth)
    if shape.form is not Form.OBJECT or depth > _MAX_DEPTH:
        return None
    emptied = [
        name
        for name, member in shape.members.items()
        if name in shape.always and _is_collection(member) and shape.name not in _STORED_AS_JSON
    ]
    below = {name: step for name, member in shape.members.items() if (step := _step(member, depth + 1)) is not None}
    if not emptied and not below:
        return None

    def run(value: Any) -> None:
        for name in emptied:
            if name in value and not value[name]:
                value[name] = None
        for name, step in below.items():
            if content := value.get(name):
                step(content)

    return run


_STORED_AS_JSON = ("CustomResourceDefinitionStatus",)
"""Messages whose empty lists differ from none, as upstream stores them as JSON."""
_MAX_DEPTH = 12
"""Deeper objects, which occur only in recursive shapes, are not changed."""


def _each(shape: Shape, depth: int) -> _Step | None:
    step = _step(shape.item, depth + 1) if shape.item is not None else None
    if step is None:
        return None
    is_map = shape.form is Form.MAP

    def run(values: Any) -> None:
        for value in values.values() if is_map else values:
            step(value)

    return run


def _is_collection(shape: Shape) -> bool:
    return shape.form in (Form.LIST, Form.MAP)
