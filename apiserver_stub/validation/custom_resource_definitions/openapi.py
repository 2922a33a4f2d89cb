"""Rules of OpenAPI schemas in definitions: supported fields, list and map types, defaults, and CEL rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.schema.structural.tree import METADATA_FIELDS
from apiserver_stub.validation.custom_resource_definitions.structural import is_convertible
from apiserver_stub.validation.schema_rules.field_paths import field_path_of
from nodeagent.base.structs import Struct

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_UNIQUE = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LINE_BREAK = re.compile(r"[\n\r]")


class SchemaContext(Struct, frozen=True):
    """Properties of the enclosing schemas on which the rules of a schema depend."""

    defaults_forbidden: str | None = None
    """Reason why there must be no defaults."""
    in_metadata: bool = False
    """It describes ``metadata``, ``kind`` or ``apiVersion``, or a part of them."""
    sets_of_atoms: bool = True
    """Items of sets must be atomic; not required if the stored definition violates the rule already."""
    keys_required: bool = True
    """Keys of lists must be required or have a default; not required if the stored definition violates the rule."""


def validate_schema(schema: Any, field: str, context: SchemaContext, *, is_root: bool = False) -> list[Cause]:
    """Return the errors in *schema*, without those of structural schemas and of the types of CEL rules."""
    if not isinstance(schema, dict):
        return []
    causes = list(_validate_support(schema, field, context))
    if schema.get("uniqueItems"):
        causes.append(forbidden_value(f"{field}.uniqueItems", _UNIQUE))
    causes += _validate_fields(schema, field, context, is_root=is_root)
    causes += _validate_below(schema, field, context)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        name = f"{field}.x-kubernetes-preserve-unknown-fields"
        causes.append(invalid_value(name, False, "must be true or undefined"))
    causes += _validate_map_type(schema, field)
    causes += _validate_list_type(schema, field, context)
    if context.keys_required:
        causes += validate_list_keys(schema, field)
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        causes += _validate_rule(rule, schema, f"{field}.x-kubernetes-validations[{index}]")
    return causes


def _validate_support(schema: Object, field: str, context: SchemaContext) -> Iterator[Cause]:
    type_ = schema.get("type") or ""
    if type_ and type_ not in _TYPES:
        yield not_supported(f"{field}.type", type_, _TYPES)
    if schema.get("default") is not None and context.defaults_forbidden is not None:
        yield forbidden_value(f"{field}.default", f"must not be set {context.defaults_forbidden}")
    for name in _UNSUPPORTED:
        value = schema.get(name)
        if value or (value is not None and name in ("additionalItems", "$ref", "dependencies")):
            yield forbidden_value(f"{field}.{name}", f"{name} is not supported")
    if type_ == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        yield forbidden_value(f"{field}.type", text)
    if isinstance(schema.get("items"), list) and schema["items"]:
        yield forbidden_value(f"{field}.items", "items must be a schema object and not an array")
    if context.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        yield forbidden_value(f"{field}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")


def _validate_fields(schema: Object, field: str, context: SchemaContext, *, is_root: bool) -> list[Cause]:
    causes: list[Cause] = []
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    if additional is not None:
        if properties and additional is not True:
            text = "additionalProperties and properties are mutual exclusive"
            causes.append(forbidden_value(f"{field}.additionalProperties", text))
        below = context
        if context.in_metadata:
            below = replace(context, defaults_forbidden="inside additionalProperties applying to object metadata")
        causes += validate_schema(additional, f"{field}.additionalProperties", below)
    is_resource = is_root or schema.get("x-kubernetes-embedded-resource")
    for name, content in properties.items():
        below = context
        if is_resource and name in METADATA_FIELDS:
            below = replace(context, in_metadata=True)
            if is_root:
                below = replace(below, defaults_forbidden=f"in top-level {name}")
        causes += validate_schema(content, f"{field}.properties[{name}]", below)
    return causes


def _validate_below(schema: Object, field: str, context: SchemaContext) -> list[Cause]:
    causes = validate_schema(schema.get("not"), f"{field}.not", context)
    for name in ("allOf", "oneOf", "anyOf"):
        for index, item in enumerate(schema.get(name) or ()):
            causes += validate_schema(item, f"{field}.{name}[{index}]", context)
    for name in ("definitions", "dependencies"):
        for key, content in (schema.get(name) or {}).items():
            causes += validate_schema(content, f"{field}.{name}[{key}]", context)
    items = schema.get("items")
    causes += validate_schema(items, f"{field}.items", context)
    if isinstance(items, list):
        for index, item in enumerate(items):
            causes += validate_schema(item, f"{field}.items[{index}]", context)
    return causes


# Map and list types


def _validate_map_type(schema: Object, field: str) -> Iterator[Cause]:
    map_type, type_ = schema.get("x-kubernetes-map-type"), schema.get("type") or ""
    if map_type is None:
        return
    if type_ != "object":
        yield _wrong_type(f"{field}.type", type_, "must be object if x-kubernetes-map-type is specified")
    if map_type not in ("atomic", "granular"):
        yield not_supported(f"{field}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _wrong_type(field: str, type_: str, text: str) -> Cause:
    return invalid_value(field, type_, text) if type_ else required(field, text)


def _validate_list_type(schema: Object, field: str, context: SchemaContext) -> Iterator[Cause]:
    list_type, type_ = schema.get("x-kubernetes-list-type"), schema.get("type") or ""
    name, keys, items = f"{field}.x-kubernetes-list-type", schema.get("x-kubernetes-list-map-keys"), schema.get("items")
    if list_type is not None:
        if type_ != "array":
            yield _wrong_type(f"{field}.type", type_, "must be array if x-kubernetes-list-type is specified")
        elif list_type == "set" and context.sets_of_atoms and isinstance(items, dict):
            yield from validate_set_items(items, f"{field}.items")
        if list_type not in ("atomic", "set", "map"):
            yield not_supported(name, list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(name, text) if list_type is None else invalid_value(name, list_type, text)
    if list_type == "map":
        yield from _validate_keyed_list(keys or [], items, field)


def validate_set_items(items: Object, field: str) -> Iterator[Cause]:
    """Yield an error if the items of a set have parts with separate owners."""
    rule = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type, map_type = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid_value(f"{field}.x-kubernetes-list-type", list_type, rule)
    if items.get("type") == "object" and map_type != "atomic":
        yield invalid_value(f"{field}.x-kubernetes-map-type", list_type, rule)  # Upstream shows the list type.


def _validate_keyed_list(keys: Sequence[str], items: Any, field: str) -> Iterator[Cause]:
    name = f"{field}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(name, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(f"{field}.items", "must have a schema if x-kubernetes-list-type is map")
    elif isinstance(items, list):
        yield invalid_value(f"{field}.items", items, "must only have a single schema if x-kubernetes-list-type is map")
    elif (type_ := items.get("type") or "") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid_value(f"{field}.items.type", type_, text)
    else:
        properties = items.get("properties") or {}
        for index, key in enumerate(keys):
            found = properties.get(key)
            if found is None:
                yield invalid_value(name, list(keys), "entries must all be names of item properties")
            elif found.get("type") in ("array", "object"):
                text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
                yield invalid_value(f"{field}.items.properties[{key}].type", type_, text)
            if key in keys[:index]:
                yield invalid_value(name, list(keys), "must not contain duplicate entries")


def validate_list_keys(schema: Object, field: str) -> Iterator[Cause]:
    """Yield errors of items and keys that may be absent in a set or a list of type map."""
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    if list_type not in ("set", "map") or not isinstance(items, dict):
        return
    if items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield forbidden_value(f"{field}.items.nullable", text)
    if list_type != "map":
        return
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        found = (items.get("properties") or {}).get(key)
        if found is None:
            continue
        name, subject = f"{field}.items.properties[{key}]", "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and found.get("default") is None:
            yield required(f"{name}.default", f"{subject} must have a default or be a required property")
        if found.get("nullable"):
            yield forbidden_value(f"{name}.nullable", f"{subject} cannot be nullable")


# CEL rules


def _validate_rule(rule: Object, schema: Object, field: str) -> Iterator[Cause]:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    expression, path = rule.get("messageExpression") or "", rule.get("fieldPath") or ""
    if not text.strip():
        yield required(f"{field}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid_value(f"{field}.message", message, "message must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield invalid_value(f"{field}.message", message, "message must not contain line breaks")
    elif _LINE_BREAK.search(text.strip()) and not message.strip():
        yield required(f"{field}.message", "message must be specified if rule contains line breaks")
    if expression and not expression.strip():
        yield required(f"{field}.messageExpression", "messageExpression must be non-empty if specified")
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{field}.reason", reason, _REASONS)
    if path and not path.strip():
        yield invalid_value(f"{field}.fieldPath", path, "fieldPath must be non-empty if specified")
    if _LINE_BREAK.search(path):
        yield invalid_value(f"{field}.fieldPath", path, "fieldPath must not contain line breaks")
    if path and is_convertible(schema) and field_path_of(path, schema) is None:
        yield invalid_value(f"{field}.fieldPath", path, "fieldPath must be a valid path")
