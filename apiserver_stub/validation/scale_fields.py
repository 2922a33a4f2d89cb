"""Validation of the fields of custom resources that the subresource ``scale`` contains."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.go_format import go_value
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.validation.schema_values import causes

_LARGEST = (1 << 31) - 1
_GO_TYPES = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
    type(None): "<nil>",
}


def field_names(path: str) -> tuple[str, ...]:
    """Return the names of the fields in a path such as ``.spec.replicas``, none for an empty path."""
    return tuple(path.removeprefix(".").split(".")) if path else ()


def validate_scale_spec(obj: Object, scale: Object) -> list[Cause]:
    """Return the errors in the desired number of replicas."""
    return _validate_replicas(obj, scale["specReplicasPath"])


def validate_scale_status(obj: Object, scale: Object) -> list[Cause]:
    """Return the errors in the observed number of replicas and in the label selector."""
    found = _validate_replicas(obj, scale["statusReplicasPath"])
    if path := scale.get("labelSelectorPath"):
        _, problem = _read(obj, path, str)
        if problem:
            found.append(causes.invalid(path, "", problem))
    return found


def _validate_replicas(obj: Object, path: str) -> list[Cause]:
    value, problem = _read(obj, path, int)
    if problem:
        return [causes.invalid(path, 0, problem)]
    replicas = value or 0
    if replicas < 0:
        return [causes.invalid(path, replicas, "should be a non-negative integer")]
    if replicas > _LARGEST:
        return [causes.invalid(path, replicas, f"should be less than or equal to {_LARGEST}")]
    return []


def _read(obj: Object, path: str, expected: type) -> tuple[Any, str]:
    """Return the value at *path*, ``None`` if there is none, and the reason why it cannot be read."""
    names = field_names(path)
    value: Any = obj
    for index, name in enumerate(names):
        if value.__class__ is not dict:
            return None, _wrong_type(names[:index] if value is None else names, value, "map[string]interface{}")
        if name not in value:
            return None, ""
        value = value[name]
    if value.__class__ is not expected:
        return None, _wrong_type(names, value, _GO_TYPES[expected])
    return value, ""


def _wrong_type(names: tuple[str, ...], value: Any, expected: str) -> str:
    shown = f"{go_value(value)} is of the type {_GO_TYPES[value.__class__]}"
    return f".{'.'.join(names)} accessor error: {shown}, expected {expected}"
