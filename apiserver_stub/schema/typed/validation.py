"""Validation of applied configurations against the schema; values are converted to the types of the kind later. No I/O.

As in upstream's library for server-side apply, from which the messages are, every scalar may be null, and the format of
integers, times and quantities is not validated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from apiserver_stub.apimachinery.go_format import go_literal, go_type, go_value
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema.field_sets import shown_element
from apiserver_stub.schema.shapes import Form, Shape
from apiserver_stub.schema.typed.elements import InvalidElement, element_of

_TEXTS = frozenset((Form.TEXT, Form.BYTES))
_UNTYPED = frozenset((Form.ANY, Form.DEDUCED, Form.INT_OR_TEXT, Form.UNION))
_NUMBERS = frozenset((Form.INT32, Form.INT64, Form.FLOAT))


def validate(config: Object, shape: Shape, *, repeats: bool = False) -> list[str]:
    """Return the errors in *config*, each with its path.

    :param repeats: allow duplicate items in a list that merges, as in stored objects.
    """
    return [f"{path}: {text}" if path else text for path, text in _validate(config, shape, "", repeats)]


def summary(errors: Sequence[str]) -> str:
    """Return *errors*, at least one, as one message."""
    return errors[0] if len(errors) == 1 else "\n  ".join(("errors:", *errors))


def _validate(value: Any, shape: Shape, path: str, repeats: bool) -> Iterator[tuple[str, str]]:
    form = shape.form
    if value is None or form in _UNTYPED:
        return
    if form in (Form.OBJECT, Form.MAP):
        if value.__class__ is not dict:
            yield path, f"expected map, got &{{{go_value(value)}}}"
            return
        for name, content in value.items():
            if form is Form.OBJECT and name not in shape.members and shape.other is None:
                yield f"{path}.{name}", "field not declared in schema"
            else:
                yield from _validate(content, shape.child(name), f"{path}.{name}", repeats)
    elif form is Form.LIST:
        yield from _validate_list(value, shape, path, repeats)
    elif (problem := _scalar_problem(value, form)) is not None:
        yield path, problem


def _validate_list(value: Any, shape: Shape, path: str, repeats: bool) -> Iterator[tuple[str, str]]:
    item_shape = shape.item
    if value.__class__ is not list:
        yield path, f"expected list, got &{{{go_value(value)}}}"
        return
    if item_shape is None:
        return
    merges = not shape.leaf
    elements: set[str] = set()
    for index, item in enumerate(value):
        element_path = f"[{index}]"
        if merges:
            try:
                element = element_of(item, shape)
            except InvalidElement as error:
                yield path, f"element {index}: {error}"
                return
            element_path = shown_element(element)
            if element in elements and not repeats:
                yield path, f"duplicate entries for key {element_path}"
            elements.add(element)
        yield from _validate(item, item_shape, f"{path}{element_path}", repeats)


def _scalar_problem(value: Any, form: Form) -> str | None:
    kind = value.__class__
    if form in _TEXTS:
        return None if kind is str else f"expected string, got &value.valueUnstructured{{Value:{go_literal(value)}}}"
    if form is Form.BOOL:
        return None if kind is bool else f"expected boolean, got &{{{go_value(value)}}}"
    if form in _NUMBERS:
        return None if kind in (int, float) else f"expected numeric (int or float), got {go_type(value)}"
    return f"expected any scalar, got &{{{go_value(value)}}}" if kind in (dict, list) else None
