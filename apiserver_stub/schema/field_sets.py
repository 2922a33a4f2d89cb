"""Sets of fields in the format of ``metadata.managedFields``. No I/O.

A set is a tree of path elements: ``f:name`` for fields and map entries, ``k:{...}`` for list items with keys, ``v:...``
for items of a set of scalars; ``.`` in a node makes the field itself part of the set. No node is empty. In
the wire format, a node that contains only itself is ``{}``.

Custom, since no package implements server-side apply.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from apiserver_stub.apimachinery.go_format import escape_json
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema.shapes import Form, Shape
from nodeagent.base.text_cache import text_cache

FieldSet = dict[str, "FieldSet"]

SELF = "."
LEAF: FieldSet = {SELF: {}}
"""A field without fields in it; shared, so never changed."""
_encode = msgspec.json.Encoder(order="deterministic").encode


def decode(wire: Any) -> FieldSet:
    """Return the field set in the wire format *wire*.

    :raises ValueError: *wire* is not a valid field set.
    """
    if not isinstance(wire, dict):
        raise ValueError("a set of fields is an object")  # noqa: TRY004 - the caller handles one kind of error
    found: FieldSet = {}
    for text, below in wire.items():
        if text == SELF:
            found[SELF] = {}
        elif (element := _element(text)) and (fields := decode(below) if below else LEAF):
            found[element] = fields
    return found


@text_cache(4096)
def _element(text: str) -> str:
    """Return a path element in canonical form, empty for an element of an unknown type.

    :raises ValueError: *text* is not a path element.
    """
    if text[1:2] != ":":
        raise ValueError(f"invalid path element {text}")
    if text[0] not in "kvi":
        return text if text[0] == "f" else ""
    try:
        value = msgspec.json.decode(text[2:])
    except msgspec.DecodeError as error:
        raise ValueError(f"invalid path element {text}") from error
    if (text[0] == "k") is not isinstance(value, dict) or (text[0] == "i") > isinstance(value, int):
        raise ValueError(f"invalid path element {text}")
    return text[:2] + _encode(value).decode()


def encode(fields: FieldSet) -> Object:
    """Return *fields* in the wire format, sorted."""
    return {
        _wire_form(element): {} if element == SELF or (len(below) == 1 and SELF in below) else encode(below)
        for element, below in sorted(fields.items())
    }


@text_cache(4096)
def _wire_form(element: str) -> str:
    return escape_json(element) if element[0] in "kv" else element


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the fields in either set."""
    if not one:
        return other
    if not other or one is other:
        return one
    merged = dict(one)
    for element, below in other.items():
        merged[element] = union(one[element], below) if element in one else below
    return merged


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the fields in *one* that are not in *other*."""
    if not other:
        return one
    found: FieldSet = {}
    for element, below in one.items():
        if element == SELF:
            if SELF not in other:
                found[SELF] = below
        elif element not in other:
            found[element] = below
        elif left := difference(below, other[element]):
            found[element] = left
    return found


def recursive_difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the fields of *one* without those of *other* and the fields below those."""
    if not other:
        return one
    left: FieldSet = {}
    for element, below in one.items():
        excluded = other.get(element)
        if not excluded:
            left[element] = below
        elif SELF not in excluded and (rest := recursive_difference(below, excluded)):
            left[element] = rest
    return left


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the fields in both sets."""
    found: FieldSet = {}
    for element, below in one.items():
        if element not in other:
            continue
        if element == SELF:
            found[SELF] = below
        elif both := intersection(below, other[element]):
            found[element] = both
    return found


def with_struct_fields(fields: FieldSet, shape: Shape) -> FieldSet:
    """Return *fields* with the struct fields that contain them; map entries and list items are not added."""
    whole: FieldSet = {}
    for element, below in fields.items():
        if element == SELF:
            whole[element] = below
            continue
        content = shape.child(element[2:]) if element[0] == "f" else shape.item
        whole[element] = with_struct_fields(below, content) if content is not None else below
        if element[0] == "f" and shape.form is Form.OBJECT and element[2:] in shape.members:
            whole[element] = {SELF: {}, **whole[element]}
    return whole


def paths(fields: FieldSet, path: str = "") -> Iterator[str]:
    """Yield the path of every field in *fields* in the form of messages: ``.spec.containers[name="c"].image``.

    The fields of a parent come before the fields below them.
    """
    elements = [(path + shown_element(name), fields[name]) for name in sorted(fields, key=_order) if name != SELF]
    for field_path, below in elements:
        if SELF in below:
            yield field_path
    for field_path, below in elements:
        if len(below) > 1 or SELF not in below:
            yield from paths(below, field_path)


@text_cache(4096)
def _order(element: str) -> tuple[Any, ...]:
    """Return the sort key of a path element: fields first, then list items by key or value."""
    kind, text = element[:1], element[2:]
    if kind == "k":
        return kind, sorted((name, _value_order(value)) for name, value in msgspec.json.decode(text).items())
    return (kind, _value_order(msgspec.json.decode(text))) if kind in "vi" else (kind, text)


def _value_order(value: Any) -> tuple[Any, ...]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0, value
    return (1, value) if isinstance(value, str) else (2, _encode(value))


def shown_element(element: str) -> str:
    """Return a path element in the form of messages: ``.name``, ``[key="value"]`` or ``[="value"]``."""
    kind, text = element[:1], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        pairs = sorted(msgspec.json.decode(text).items())
        return "[" + ",".join(f"{name}={_encode(value).decode()}" for name, value in pairs) + "]"
    return f"[={text}]" if kind == "v" else f"[{text}]"
