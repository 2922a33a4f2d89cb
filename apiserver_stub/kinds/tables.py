"""Tables and partial metadata: the shapes in which kubectl asks for lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.objects import Object, parse_time
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Query
    from apiserver_stub.kinds.registry import Resource

_MODES = ("", "Metadata", "Object", "None")


def include_object(query: Query) -> str:
    """Return what each row carries of its object.

    :raises ApiError: 400, the parameter has a value that means nothing.
    """
    mode = query.get("includeObject")
    if mode not in _MODES:
        raise ApiError(
            400,
            "BadRequest",
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{mode}": '
            "must be 'Metadata', 'Object', 'None', or empty",
        )
    return mode or "Metadata"


def table(
    resource: Resource, items: Sequence[Object], metadata: Object, mode: str, version: str, *, columns: bool = True
) -> Object:
    """Return a Table of *items*; later ones of a watch go without *columns*, which it told before."""
    return {
        "kind": "Table",
        "apiVersion": f"{identity.current().group('meta')}/{version}",
        "metadata": metadata,
        "columnDefinitions": [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": column.description,
                "priority": 1 if column.wide else 0,
            }
            for column in resource.columns
        ]
        if columns
        else None,
        "rows": [row(resource, item, mode, version) for item in items] or _no_rows(resource),
    }


def row(resource: Resource, item: Object, mode: str, version: str) -> Object:
    """Return the row of one object."""
    found: dict[str, Any] = {"cells": [column.cell(item) for column in resource.columns], "object": None}
    if resource.row_conditions is not None and (conditions := resource.row_conditions(item)):
        found["conditions"] = conditions
    if mode == "Metadata":
        found["object"] = partial(item, version)
    elif mode == "Object":
        found["object"] = item
    return found


def _no_rows(resource: Resource) -> list[Object] | None:
    """Return the rows of an empty table: upstream's default columns have null."""
    return None if resource.columns[-1].name == "Created At" else []


def partial(item: Object, version: str) -> Object:
    """Return the metadata of an object as an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{identity.current().group('meta')}/{version}",
        "metadata": item.get("metadata", {}),
    }


def age(obj: Object) -> str:
    """Return how long ago *obj* was created."""
    return since(obj.get("metadata", {}).get("creationTimestamp"))


def since(time: Any) -> str:
    """Return how long ago *time* (RFC 3339) was, ``<unknown>`` when there is none."""
    moment = parse_time(time)
    return "<unknown>" if moment is None else short((datetime.now(UTC) - moment).total_seconds())


def short(seconds: float) -> str:
    """Return a length in the two units that matter: ``5s``, ``2m3s``, ``37m``, ``3h5m``, ``20h``, ``3d4h``, ``40d``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(0, whole)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
