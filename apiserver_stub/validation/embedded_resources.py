"""Validation of the resources that are embedded in custom resources."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, required
from apiserver_stub.schema.structural.tree import Node
from apiserver_stub.validation.metadata import validate_metadata
from apiserver_stub.validation.names import path_problems
from apiserver_stub.validation.schema_values import causes
from nodeagent.base.names import service_name_problems

_MIXED_CASE = "may have mixed case, but should otherwise match: "
_ANY_NAME = "fakename"


def validate_embedded(value: Any, node: Node | None, path: str = "") -> list[Cause]:
    """Return the errors in ``apiVersion``, ``kind`` and ``metadata`` of the resources embedded in *value*."""
    found: list[Cause] = []
    _validate(value, node, path, found)
    return found


def _validate(value: Any, node: Node | None, path: str, found: list[Cause]) -> None:
    if node is None or not node.has_resources:
        return
    if value.__class__ is list:
        for index, item in enumerate(value):
            _validate(item, node.items, f"{path}[{index}]", found)
    elif value.__class__ is dict:
        if node.is_resource:
            found += _validate_resource(value, f"{path}." if path else "")
        for name, content in value.items():
            if (below := node.properties.get(name)) is not None:
                _validate(content, below, f"{path}.{name}" if path else name, found)
            elif node.is_map:
                _validate(content, node.values, f"{path}[{name}]", found)


def _validate_resource(resource: Object, prefix: str) -> list[Cause]:
    found = [
        required(f"{prefix}{name}", "must not be empty") for name in ("apiVersion", "kind") if name not in resource
    ]
    found += [
        causes.invalid(f"{prefix}{name}", "", "must not be empty")
        for name in ("apiVersion", "kind")
        if resource.get(name) == ""
    ]
    version, kind = resource.get("apiVersion") or "", resource.get("kind") or ""
    if version.count("/") > 1:
        found.append(causes.invalid(f"{prefix}apiVersion", version, f"unexpected GroupVersion string: {version}"))
    if kind and (problems := service_name_problems(kind.lower())):
        found.append(causes.invalid(f"{prefix}kind", kind, _MIXED_CASE + ",".join(problems)))
    metadata = resource.get("metadata")
    if isinstance(metadata, dict):
        complete = {**metadata, "name": metadata.get("name") or _ANY_NAME}
        found += [
            Cause(cause.reason, cause.message, f"{prefix}{cause.field}")
            for cause in validate_metadata(complete, path_problems)
        ]
    return found
