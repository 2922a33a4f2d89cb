"""Metadata of custom resources and of the resources embedded in them: types, unknown fields, normalization. No I/O."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.go_format import type_name
from apiserver_stub.schema import shapes
from apiserver_stub.schema.field_validation import Findings, SchemaMismatch, check
from apiserver_stub.schema.shapes import Shape
from apiserver_stub.schema.structural.tree import Node

_ZERO_TIME = "0001-01-01T00:00:00Z"


def metadata_shape() -> Shape:
    """Return the shape of ``ObjectMeta``."""
    shape = shapes.of("v1", "ConfigMap", "")
    if shape is None:
        raise TypeError("ConfigMaps have a definition")
    return shape.members["metadata"]


def check_metadata(metadata: Any, *, converts: bool = False) -> Findings:
    """Validate and normalize ``metadata`` in place; the paths of unknown fields start with ``metadata``.

    A zero ``deletionTimestamp`` is removed: unlike for other kinds, it means that there is none.

    :raises SchemaMismatch: a value has the wrong type.
    """
    if metadata.__class__ is not dict:
        raise SchemaMismatch(
            f"json: cannot unmarshal {type_name(metadata)} into Go value of type v1.ObjectMeta",
        )
    found = check(metadata, metadata_shape(), complete=True, converts=converts)
    if metadata.get("deletionTimestamp") == _ZERO_TIME:
        del metadata["deletionTimestamp"]
    found.unknown = [f"metadata.{path}" for path in found.unknown]
    return found


class EmbeddedMismatch(ValueError):
    """``apiVersion``, ``kind`` or ``metadata`` of an embedded resource has the wrong type."""

    def __init__(self, path: str, value: Any, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.path, self.value, self.detail = path, value, detail


def coerce(value: Any, node: Node | None, path: str = "") -> list[str]:
    """Normalize the metadata of the resources embedded in *value* in place; return the paths of unknown fields.

    :raises EmbeddedMismatch: a value has the wrong type.
    """
    unknown: list[str] = []
    _coerce(value, node, path, unknown)
    unknown.sort()
    return unknown


def _coerce(value: Any, node: Node | None, path: str, unknown: list[str]) -> None:
    if node is None or not node.has_resources:
        return
    if value.__class__ is list:
        for index, item in enumerate(value):
            _coerce(item, node.items, f"{path}[{index}]", unknown)
        return
    if value.__class__ is not dict:
        return
    for name, content in value.items():
        own_path = f"{path}.{name}" if path else name
        if node.is_resource:
            if name in ("apiVersion", "kind") and content.__class__ is not str:
                raise EmbeddedMismatch(own_path, content, "must be a string")
            if name == "metadata":
                unknown += _coerce_metadata(content, own_path)
        if (below := node.properties.get(name)) is not None:
            _coerce(content, below, own_path, unknown)
        elif node.is_map:
            _coerce(content, node.values, f"{path}[{name}]", unknown)


def _coerce_metadata(metadata: Any, path: str) -> list[str]:
    try:
        found = check_metadata(metadata)
    except SchemaMismatch as error:
        raise EmbeddedMismatch(path, metadata, str(error)) from None
    if metadata.get("creationTimestamp") is None:
        metadata.pop("creationTimestamp", None)
    prefix = path.removesuffix("metadata")
    return [f"{prefix}{name}" for name in found.unknown]
