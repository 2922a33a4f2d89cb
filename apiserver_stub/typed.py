"""Validation of configurations to apply against the schema; values get the types of the kind later. No I/O.

Every scalar may be null, and integers, times and quantities may have any value. The texts are those of upstream's
library for server-side apply.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apiserver_stub.fieldsets import Unmergeable, by_element, shown_element
from apiserver_stub.objects import Object
from apiserver_stub.schema import Form, Shape
from apiserver_stub.status import quote
from apiserver_stub.strategic import go_value

_TEXTS = frozenset((Form.TEXT, Form.BYTES))
_NUMBERS = frozenset((Form.INT32, Form.INT64, Form.FLOAT))
_GO_TYPES = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool"}


def validate(config: Object, shape: Shape) -> list[str]:
    """Return the errors in *config*, each with its path."""
    return [f"{path}: {text}" if path else text for path, text in _validate(config, shape, "")]


def _validate(value: Any, shape: Shape, path: str) -> Iterator[tuple[str, str]]:
    form = shape.form
    if value is None or form is Form.ANY:
        return
    if form in (Form.OBJECT, Form.MAP):
        if value.__class__ is not dict:
            yield path, f"expected map, got &{{{go_value(value)}}}"
            return
        for name, content in value.items():
            if form is Form.OBJECT and name not in shape.members:
                yield f"{path}.{name}", "field not declared in schema"
            else:
                yield from _validate(content, shape.child(name), f"{path}.{name}")
    elif form is Form.LIST:
        yield from _validate_list(value, shape, path)
    elif (problem := _scalar_problem(value, form)) is not None:
        yield path, problem


def _validate_list(value: Any, shape: Shape, path: str) -> Iterator[tuple[str, str]]:
    item_shape = shape.item
    if value.__class__ is not list:
        yield path, f"expected list, got &{{{go_value(value)}}}"
        return
    if item_shape is None:
        return
    if shape.keys or shape.is_set:
        try:
            items = by_element(value, shape)
        except Unmergeable as error:
            yield path, str(error)
            return
        for element, item in items.items():
            yield from _validate(item, item_shape, f"{path}{shown_element(element)}")
    else:
        for index, item in enumerate(value):
            yield from _validate(item, item_shape, f"{path}[{index}]")


def _scalar_problem(value: Any, form: Form) -> str | None:
    kind = value.__class__
    if form in _TEXTS:
        return None if kind is str else f"expected string, got &value.valueUnstructured{{Value:{_go_literal(value)}}}"
    if form is Form.BOOL:
        return None if kind is bool else f"expected boolean, got &{{{go_value(value)}}}"
    if form in _NUMBERS:
        return None if kind in (int, float) else f"expected numeric (int or float), got {_GO_TYPES[kind]}"
    return f"expected any scalar, got &{{{go_value(value)}}}" if kind in (dict, list) else None


def _go_literal(value: Any) -> str:
    """Return *value* as Go's ``%#v`` prints it."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{quote(name)}:{_go_literal(content)}" for name, content in sorted(value.items()))
        return f"map[string]interface {{}}{{{pairs}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_literal, value))}}}"
    return "interface {}(nil)" if value is None else quote(value)
