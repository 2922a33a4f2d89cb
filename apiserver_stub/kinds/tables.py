"""Tables and partial metadata: the representations of objects that kubectl requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.objects import Object, parse_time
from apiserver_stub.apimachinery.status import ApiError

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Query
    from apiserver_stub.kinds.registry import Resource

_MODES = ("", "Metadata", "Object", "None")


def include_object(query: Query) -> str:
    """Return the requested content of a row's ``object``.

    :raises ApiError: 400, the parameter is invalid.
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
    """Return a Table of *items*, of API version *version*; tables of a watch after the first one have no *columns*."""
    return {
        "kind": "Table",
        "apiVersion": version,
        "metadata": metadata,
        "columnDefinitions": [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            }
            for column in resource.columns
        ]
        if columns
        else None,
        "rows": [row(resource, item, mode, version) for item in items] or _no_rows(resource),
    }


def row(resource: Resource, item: Object, mode: str, version: str) -> Object:
    """Return the row of one object."""
    result: dict[str, Any] = {"cells": [column.cell(item) for column in resource.columns], "object": None}
    if resource.row_conditions is not None and (conditions := resource.row_conditions(item)):
        result["conditions"] = conditions
    if mode == "Metadata":
        result["object"] = partial(item, version)
    elif mode == "Object":
        result["object"] = item
    return result


def _no_rows(resource: Resource) -> list[Object] | None:
    """Return the rows of an empty table, ``None`` with upstream's default columns."""
    return None if resource.columns[-1].name == "Created At" else []


def partial(item: Object, version: str) -> Object:
    """Return the PartialObjectMetadata of *item*, of API version *version*."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": version,
        "metadata": item.get("metadata", {}),
    }


def age(obj: Object) -> str:
    """Return the time since *obj* was created."""
    return since(obj.get("metadata", {}).get("creationTimestamp"))


def since(time: Any) -> str:
    """Return the duration since *time* (RFC 3339), ``<unknown>`` without a time."""
    start = parse_time(time)
    return "<unknown>" if start is None else short((datetime.now(UTC) - start).total_seconds())


def short(seconds: float) -> str:
    """Return a duration in one or two units: ``5s``, ``2m3s``, ``37m``, ``3h5m``, ``20h``, ``3d4h``, ``40d``."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    total = max(0, total)
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if total < 120:
        return f"{total}s"
    if minutes < 10:
        return _two(minutes, "m", total % 60, "s")
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
