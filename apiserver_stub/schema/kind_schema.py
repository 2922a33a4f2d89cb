"""Schemas of kinds as the verbs use them: validation and normalization of objects, and their shape."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema import shapes
from apiserver_stub.schema.field_validation import Findings, check
from apiserver_stub.schema.null_times import omit_null_times
from apiserver_stub.schema.shapes import Shape
from apiserver_stub.schema.stored_form import settle


class KindSchema(Protocol):
    """Schema of a kind."""

    is_open: bool
    """``True`` for custom kinds, whose objects are decoded without types: the kind of an object is validated last."""

    @property
    def source(self) -> Object:
        """Return the schema as ``JSONSchemaProps``; that of an open schema is complete."""
        ...

    @property
    def shape(self) -> Shape:
        """Return the shape of the objects, on which field ownership is based."""
        ...

    def check(self, obj: Object, *, converts: bool = False) -> Findings:
        """Validate the types of *obj*, drop its unknown fields and normalize it, in place.

        :param converts: *obj* was converted from decoded values, as by strategic merge patches and server-side apply.
        :raises SchemaMismatch: a value has the wrong type.
        """
        ...

    def settle(self, obj: Object) -> None:
        """Normalize a valid object before it is stored, in place."""
        ...

    def omit_null_times(self, obj: Object) -> None:
        """Remove each ``creationTimestamp`` that is null, in place."""
        ...


class DefinedSchema:
    """Schema that is derived from a protobuf definition."""

    is_open = False

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.source: Object = {}

    def check(self, obj: Object, *, converts: bool = False) -> Findings:
        return check(obj, self.shape, complete=True, converts=converts)

    def settle(self, obj: Object) -> None:
        settle(obj, self.shape)

    def omit_null_times(self, obj: Object) -> None:
        omit_null_times(obj, self.shape)


@cache
def defined(api_version: str, kind: str, api_domain: str) -> DefinedSchema | None:
    """Return the schema of a kind with a protobuf definition, ``None`` for others.

    :param api_domain: domain of API groups.
    """
    shape = shapes.of(api_version, kind, api_domain)
    return DefinedSchema(shape) if shape is not None else None
