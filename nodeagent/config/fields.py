"""Description of the configuration fields: type, default, meaning and specification row.

The decoder, the flags, the documentation and ``nodeagent config explain`` all use it.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from nodeagent.base import identity
from nodeagent.base.duration import Duration
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import Struct
from nodeagent.contracts.configuration import ConfigStruct, NodeAgentConfiguration, TimeOrMetaDuration

_NAMES: dict[Any, str] = {
    bool: "bool",
    str: "string",
    int: "int",
    float: "float64",
    Duration: "duration",
    Quantity: "quantity",
    TimeOrMetaDuration: "duration or nanoseconds",
}


class Shape(Struct, frozen=True):
    """Type of a value: *kind* is a class, ``tuple`` (of *item*) or ``dict`` (string to *item*)."""

    kind: Any
    item: Shape | None = None
    optional: bool = False
    title: str = ""
    low: int | None = None
    high: int | None = None

    @property
    def name(self) -> str:
        """Name of the type in the documentation."""
        if self.item is not None:
            return f"{'array of' if self.kind is tuple else 'map of string to'} {self.item.name}"
        return self.title or _NAMES.get(self.kind) or self.kind.__name__


class Member(Struct, frozen=True):
    """Field of a configuration type."""

    attribute: str
    wire: str
    shape: Shape
    doc: str
    row: str
    """ID of the specification row, or empty if there is none."""
    since: str = ""
    """Release that added the field; empty for a field of the described release."""


class Field(Struct, frozen=True):
    """Field of the complete configuration, with its path."""

    path: str
    """Names in files joined by dots, with ``[]`` after an array."""
    attributes: tuple[str, ...]
    member: Member
    default: Any
    """Default value; ``None`` inside arrays and without a default."""


@functools.cache
def members(kind: type[ConfigStruct]) -> tuple[Member, ...]:
    """Return the fields of a configuration type in the order of its definition."""
    return tuple(
        Member(
            info.name,
            info.encode_name,
            _shape(info.type),
            _description(info.type),
            f"{kind.row}.{info.encode_name}" if kind.row and not _since(info.type) else "",
            _since(info.type),
        )
        for info in msgspec.structs.fields(kind)
    )


def all_fields() -> dict[str, Field]:
    """Return every field of :class:`NodeAgentConfiguration`, nested ones included, by path."""
    return _all_fields(identity.current())


@functools.cache
def _all_fields(_: identity.Identity) -> dict[str, Field]:
    """Return the fields; two defaults depend on the effective identity."""
    return {field.path: field for field in _walk(NodeAgentConfiguration, NodeAgentConfiguration(), "", ())}


def _walk(kind: type[ConfigStruct], default: Any, prefix: str, attributes: tuple[str, ...]) -> Iterator[Field]:
    for member in members(kind):
        path, here = f"{prefix}{member.wire}", (*attributes, member.attribute)
        value = None if default is None else getattr(default, member.attribute)
        yield Field(path, here, member, value)
        shape = member.shape
        if is_struct(shape):
            yield from _walk(shape.kind, value, f"{path}.", here)
        elif shape.item is not None and is_struct(shape.item):
            yield from _walk(shape.item.kind, None, f"{path}[].", here)


def is_struct(shape: Shape) -> bool:
    """Return whether a value is an object with fields."""
    return (
        isinstance(shape.kind, type) and issubclass(shape.kind, ConfigStruct) and shape.kind is not TimeOrMetaDuration
    )


def _shape(hint: Any) -> Shape:
    if typing.get_origin(hint) is typing.Annotated:
        base, *metas = typing.get_args(hint)
        shape = _shape(base)
        for meta in metas:
            if isinstance(meta, msgspec.Meta) and meta.title:
                low, high = meta.ge, meta.le
                return Shape(
                    shape.kind,
                    title=meta.title,
                    low=None if low is None else int(low),
                    high=None if high is None else int(high),
                )
        return shape
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        inner = _shape(next(argument for argument in arguments if argument is not type(None)))
        return Shape(inner.kind, inner.item, optional=True, title=inner.title, low=inner.low, high=inner.high)
    if origin is tuple:
        return Shape(tuple, _shape(arguments[0]))
    if origin is dict:
        return Shape(dict, _shape(arguments[1]))
    return Shape(hint)


def _since(hint: Any) -> str:
    """Return the release that added the field, or the empty string for a field of the described release."""
    metas = typing.get_args(hint)[1:] if typing.get_origin(hint) is typing.Annotated else ()
    return next((meta.extra["since"] for meta in metas if isinstance(meta, msgspec.Meta) and meta.extra), "")


def _description(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Annotated:
        for meta in typing.get_args(hint)[1:]:
            if isinstance(meta, msgspec.Meta) and meta.description:
                return meta.description
    return ""
