"""The form of stored objects: upstream's storage format does not distinguish an empty list from none. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema.shapes import Form, Shape

_Step = Callable[[Any], None]


def settle(obj: Object, shape: Shape | None) -> None:
    """Replace the empty lists and maps of *obj* that are always present by null, in place.

    Before, they are changes of which a field manager becomes the owner.
    """
    if shape is not None and (step := _step(shape)) is not None:
        step(obj)


@cache
def _step(shape: Shape, depth: int = 0) -> _Step | None:
    """Return the function for values of *shape*, ``None`` where there is nothing to do in them."""
    if shape.form in (Form.LIST, Form.MAP):
        return _each(shape, depth)
    if shape.form is not Form.OBJECT or depth > _MAX_DEPTH:
        return None
    emptied = [name for name, member in shape.members.items() if name in shape.always and _is_collection(member)]
    below = {name: found for name, member in shape.members.items() if (found := _step(member, depth + 1)) is not None}
    if not emptied and not below:
        return None

    def run(value: Any) -> None:
        for name in emptied:
            if name in value and not value[name]:
                value[name] = None
        for name, found in below.items():
            if content := value.get(name):
                found(content)

    return run


_MAX_DEPTH = 12
"""Deeper objects, which only recursive shapes have, are left as they are."""


def _each(shape: Shape, depth: int) -> _Step | None:
    found = _step(shape.item, depth + 1) if shape.item is not None else None
    if found is None:
        return None
    is_map = shape.form is Form.MAP

    def run(values: Any) -> None:
        for value in values.values() if is_map else values:
            found(value)

    return run


def _is_collection(shape: Shape) -> bool:
    return shape.form in (Form.LIST, Form.MAP)
