"""Rules of default values in definitions: they are valid, and have no unknown fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.schema.structural.embedded import EmbeddedMismatch, coerce
from apiserver_stub.schema.structural.pruning import prune, prune_value
from apiserver_stub.schema.structural.tree import METADATA_FIELDS, Node
from apiserver_stub.validation.embedded_resources import validate_embedded
from apiserver_stub.validation.schema_rules.rules import SchemaRulesValidator
from apiserver_stub.validation.schema_values import causes
from apiserver_stub.validation.schema_values.causes import NO_FIELD
from apiserver_stub.validation.schema_values.correlation import UNKNOWN
from apiserver_stub.validation.schema_values.values import validator_of

_Wrap = Callable[[Any], Object]


def validate_defaults(root: Node, field: str, *, pruned: bool = True) -> list[Cause]:
    """Return the errors in the defaults of *root* and of the values in it.

    :param pruned: defaults must not have unknown fields.
    """
    return _validate(replace(root, is_resource=True), field, _resource, pruned=pruned, resource=None)


def _resource(value: Any) -> Object:
    return {"apiVersion": "validation/v1", "kind": "Validation", **(value if isinstance(value, dict) else {})}


def _validate(node: Node, field: str, wrap: _Wrap, *, pruned: bool, resource: Node | None) -> list[Cause]:
    """Return the errors in the defaults of *node*; *resource* is the resource of whose metadata it is a part."""
    found: list[Cause] = []
    if node.is_resource:
        wrap, resource = _resource, None
    if node.default is not None:
        found += _validate_default(node, f"{field}.default", wrap, pruned=pruned, resource=resource)
    if node.items is not None:
        found += _validate(node.items, f"{field}.items", _in_list(wrap), pruned=pruned, resource=resource)
    for name, below in node.properties.items():
        of_metadata = node if node.is_resource and name in METADATA_FIELDS else resource
        own_field = f"{field}.properties[{name}]"
        found += _validate(below, own_field, _in_field(wrap, name), pruned=pruned, resource=of_metadata)
    return found


def _in_list(wrap: _Wrap) -> _Wrap:
    return lambda value: wrap([value])


def _in_field(wrap: _Wrap, name: str) -> _Wrap:
    return lambda value: wrap({name: value})


def _validate_default(node: Node, field: str, wrap: _Wrap, *, pruned: bool, resource: Node | None) -> list[Cause]:
    value = node.default_value()
    found: list[Cause] = []
    if resource is not None:
        complete = wrap(node.default_value())
        try:
            coerce(complete, resource)
        except EmbeddedMismatch as error:
            return [causes.invalid(field, value, f"must result in valid metadata: {error}")]
        if errors := validate_embedded(complete, resource):
            texts = ", ".join(f"{cause.field}: {cause.message}" for cause in errors)
            shown = texts if len(errors) == 1 else f"[{texts}]"
            return [causes.invalid(field, value, f"must result in valid metadata: {shown}")]
    else:
        if pruned and _is_pruned(value, node):
            found.append(causes.invalid(field, value, "must not have unknown fields"))
        try:
            coerce(objects.clone(value), node, field)
        except EmbeddedMismatch as error:
            return [*found, causes.invalid(error.path, error.value, error.detail)]
        if errors := validate_embedded(value, node, field):
            return found + errors
    errors = []
    validator_of(node.source)(value, "", UNKNOWN, errors)
    if not errors:
        errors = SchemaRulesValidator(node, ratchets=True).validate_default(value)
    return found + [Cause(cause.reason, cause.message, _within(field, cause.field)) for cause in errors]


def _is_pruned(value: Any, node: Node) -> bool:
    copy = objects.clone(value)
    if node.is_resource and isinstance(copy, dict):
        prune(copy, node)
    else:
        prune_value(copy, node)
    return bool(copy != value)


def _within(field: str, below: str) -> str:
    return field if below == NO_FIELD else f"{field}.{below}"
