"""Correlation of the values of an update with the stored ones. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object


class _Unknown:
    """There is no stored value, or it cannot be determined."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Any = _Unknown()


def old_field(old: Any, name: str) -> Any:
    """Return the stored value of field *name* of an object whose stored value is *old*."""
    return old[name] if old.__class__ is dict and name in old else UNKNOWN


def old_items(schema: Object, value: Sequence[Any], old: Any) -> list[Any] | None:
    """Return the stored item for each item of the list *value*, ``None`` unless the list has the type map.

    :param schema: schema of the list, as ``JSONSchemaProps``.
    """
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if old.__class__ is not list or schema.get("x-kubernetes-list-type") != "map" or not keys:
        return None
    known = {key: item for item in old if (key := _key(item, keys)) is not None}
    return [UNKNOWN if (key := _key(item, keys)) is None else known.get(key, UNKNOWN) for item in value]


def _key(item: Any, keys: Sequence[str]) -> bytes | None:
    return objects.encode([item.get(name) for name in keys]) if item.__class__ is dict else None
