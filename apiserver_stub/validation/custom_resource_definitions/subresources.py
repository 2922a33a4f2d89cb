"""Validation of subresources and printer columns of custom kinds."""

from __future__ import annotations

from collections.abc import Iterator

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, required

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def validate_subresources(subresources: Object | None, field: str) -> Iterator[Cause]:
    """Yield the errors in the subresources of a version."""
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    yield from _validate_replicas(scale.get("specReplicasPath") or "", ".spec", f"{field}.scale.specReplicasPath")
    yield from _validate_replicas(scale.get("statusReplicasPath") or "", ".status", f"{field}.scale.statusReplicasPath")
    if selector := scale.get("labelSelectorPath"):
        name = f"{field}.scale.labelSelectorPath"
        if errors := list(_validate_path(selector, name)):
            yield from errors
        elif not selector.startswith((".spec.", ".status.")):
            yield invalid_value(name, selector, "should be a json path under either .spec or .status")


def _validate_replicas(path: str, root: str, field: str) -> Iterator[Cause]:
    if not path:
        yield required(field)
    elif errors := list(_validate_path(path, field)):
        yield from errors
    elif not path.startswith(f"{root}."):
        yield invalid_value(field, path, f"should be a json path under {root}")


def _validate_path(path: str, field: str) -> Iterator[Cause]:
    if not path.startswith("."):
        yield invalid_value(field, path, "must be a simple json path starting with .")


def validate_column(column: Object, field: str) -> Iterator[Cause]:
    """Yield the errors in a printer column."""
    if not column.get("name"):
        yield required(f"{field}.name")
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not (type_ := column.get("type") or ""):
        yield required(f"{field}.type", types)
    elif type_ not in _COLUMN_TYPES:
        yield invalid_value(f"{field}.type", type_, types)
    if (format_ := column.get("format")) and format_ not in _COLUMN_FORMATS:
        yield invalid_value(f"{field}.format", format_, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not (path := column.get("jsonPath") or ""):
        yield required(f"{field}.JSONPath")
    else:
        yield from _validate_path(path, f"{field}.JSONPath")
