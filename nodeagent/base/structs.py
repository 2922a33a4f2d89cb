"""Base classes of structs, which are cheap to define and also work with :mod:`dataclasses`."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import msgspec


class _Fields:
    """Fields as :mod:`dataclasses` describes them, without defaults; created when they are first read."""

    def __get__(self, struct: object, cls: type[msgspec.Struct]) -> dict[str, dataclasses.Field[Any]]:
        return _described(cls)


@cache
def _described(cls: type[msgspec.Struct]) -> dict[str, dataclasses.Field[Any]]:
    described = dataclasses.make_dataclass(
        cls.__name__,
        cls.__struct_fields__,
        namespace={"__doc__": cls.__name__},  # Otherwise a docstring is generated, for which a signature is parsed.
        init=False,
        repr=False,
        eq=False,
        match_args=False,
    )
    fields: dict[str, dataclasses.Field[Any]] = described.__dataclass_fields__  # type: ignore[attr-defined]
    return fields


class Struct(msgspec.Struct, frozen=True):
    """Base class of immutable classes that only have fields and functions of them.

    The definition of a struct takes a fortieth of the time and a seventh of the memory of a data class, of which the
    agent would import some hundreds. Functions such as :func:`dataclasses.replace` accept structs.
    """

    __dataclass_fields__ = _Fields()


class MutableStruct(msgspec.Struct):
    """Like :class:`Struct`, with fields that can be assigned."""

    __dataclass_fields__ = _Fields()
