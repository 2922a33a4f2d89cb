"""Rules of structural schemas: every value has a type, and combinations of schemas only restrict specified values."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, required
from apiserver_stub.cel.patterns import pattern_problem

ROOT, ITEM, FIELD = "the root", "specified array items", "specified object fields"
"""Levels of a schema, as errors name them."""
_INT_OR_TEXT = [{"type": "integer"}, {"type": "string"}]
_METADATA_NAMES = frozenset(("name", "generateName"))
_METADATA_RULE = "must not specify anything other than name and generateName, but metadata is implicitly specified"
_NESTED = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_POINTERS = ("additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type")
"""Those that are set also if they are empty."""
_UNSUPPORTED = ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions")


def is_convertible(schema: Any) -> bool:
    """Return whether *schema* and those in it have only fields that structural schemas support."""
    return conversion_problem(schema) is None


def conversion_problem(schema: Any) -> str | None:
    """Return why *schema*, or one in it, cannot be a structural schema; ``None`` if it can."""
    if isinstance(schema, list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    if not isinstance(schema, dict):
        return None
    for name in _UNSUPPORTED:
        if schema.get(name) or (name == "additionalItems" and schema.get(name) is not None):
            return f"OpenAPIV3Schema '{'schema' if name == '$schema' else name}' is not supported"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    below = [schema.get(name) for name in ("items", "additionalProperties", "not")]
    below += (schema.get("properties") or {}).values()
    below += [item for name in ("allOf", "anyOf", "oneOf") for item in schema.get(name) or ()]
    return next((problem for item in below if (problem := conversion_problem(item)) is not None), None)


def validate_structural(schema: Object, field: str) -> list[Cause]:
    """Return the violations of the rules of structural schemas, sorted by their texts."""
    causes = _validate(schema, ROOT, field) + _validate_complete(schema, schema, field, field)
    return sorted(causes, key=lambda cause: f"{cause.field}: {cause.message}")


def _validate(schema: Object, level: str, field: str) -> list[Cause]:
    causes: list[Cause] = []
    type_, items = schema.get("type") or "", schema.get("items")
    properties = schema.get("properties") or {}
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    preserves = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    int_or_text = bool(schema.get("x-kubernetes-int-or-string"))
    if type_ == "array" and items is None:
        causes.append(required(f"{field}.items", "must be specified"))
    if items is not None:
        causes += _validate(items, ITEM, f"{field}.items")
    for name, content in properties.items():
        causes += _validate(content, FIELD, f"{field}.properties[{name}]")
    causes += _validate_additional(schema.get("additionalProperties"), level, field)
    if int_or_text and preserves:
        text = "must be false if x-kubernetes-int-or-string is true"
        causes.append(invalid_value(f"{field}.x-kubernetes-preserve-unknown-fields", True, text))
    if int_or_text and embedded:
        text = "must be false if x-kubernetes-int-or-string is true"
        causes.append(invalid_value(f"{field}.x-kubernetes-embedded-resource", True, text))
    causes += _validate_combinations(schema, field)
    if embedded and type_ != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        causes.append(invalid_value(f"{field}.type", type_, text) if type_ else required(f"{field}.type", text))
    elif not type_ and not int_or_text and not preserves:
        causes.append(required(f"{field}.type", f"must not be empty {'at' if level is ROOT else 'for'} {level}"))
    if embedded and schema.get("additionalProperties") is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        causes.append(forbidden_value(f"{field}.additionalProperties", text))
    if level is ROOT and type_ and type_ != "object":
        causes.append(invalid_value(f"{field}.type", type_, "must be object at the root"))
    causes += _validate_resource_fields(properties, level, field, is_resource=level is ROOT or embedded)
    if embedded and not preserves and not properties:
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        causes.append(required(f"{field}.properties", text))
    return causes


def _validate_additional(additional: Any, level: str, field: str) -> list[Cause]:
    causes: list[Cause] = []
    if additional is not None and level is ROOT:
        causes.append(forbidden_value(f"{field}.additionalProperties", "must not be used at the root"))
    if isinstance(additional, dict):
        causes += _validate(additional, FIELD, f"{field}.additionalProperties")
    return causes


def _validate_resource_fields(properties: Object, level: str, field: str, *, is_resource: bool) -> list[Cause]:
    """Return the errors in the schemas of ``kind``, ``apiVersion`` and ``metadata``."""
    causes = [
        invalid_value(f"{field}.properties[{name}].type", found.get("type") or "", "must be string")
        for name in ("kind", "apiVersion")
        if is_resource and (found := properties.get(name)) is not None and found.get("type") != "string"
    ]
    metadata = properties.get("metadata")
    if metadata is None:
        return causes
    own_field = f"{field}.properties[metadata]"
    if is_resource and metadata.get("type") != "object":
        causes.append(invalid_value(f"{own_field}.type", metadata.get("type") or "", "must be object"))
    if level is ROOT:
        names = (metadata.get("properties") or {}).keys()
        others = {name for name, value in metadata.items() if value} - {"type", "default", "properties"}
        if others or not names <= _METADATA_NAMES:
            causes.append(forbidden_value(own_field, _METADATA_RULE))
    return causes


def _validate_combinations(schema: Object, field: str, *, is_nested: bool = False) -> list[Cause]:
    """Return the errors in the restrictions of a value; *is_nested* if it is specified elsewhere."""
    causes: list[Cause] = []
    if is_nested or not _is_pattern(schema):
        causes += _validate_each(schema, "anyOf", field)
    for index, item in enumerate(schema.get("allOf") or ()):
        skips_any_of = not is_nested and not index and _is_pattern(item)
        causes += _validate_nested(item, f"{field}.allOf[{index}]", skips_any_of=skips_any_of)
    causes += _validate_each(schema, "oneOf", field)
    if (excluded := schema.get("not")) is not None:
        causes += _validate_nested(excluded, f"{field}.not")
    if (pattern := schema.get("pattern")) and (problem := pattern_problem(pattern)):
        text = f"must be a valid regular expression, but isn't: {problem}"
        causes.append(invalid_value(f"{field}.pattern", pattern, text))
    return causes


def _is_pattern(schema: Object) -> bool:
    return bool(schema.get("anyOf") == _INT_OR_TEXT)


def _validate_each(schema: Object, name: str, field: str) -> list[Cause]:
    return [
        cause
        for index, item in enumerate(schema.get(name) or ())
        for cause in _validate_nested(item, f"{field}.{name}[{index}]")
    ]


def _validate_nested(schema: Object, field: str, *, skips_any_of: bool = False) -> list[Cause]:
    """Return the errors in a schema that restricts values that are specified elsewhere."""
    causes = _validate_combinations({**schema, "anyOf": None} if skips_any_of else schema, field, is_nested=True)
    if (items := schema.get("items")) is not None:
        causes += _validate_nested(items, f"{field}.items")
    properties = schema.get("properties") or {}
    for name, content in properties.items():
        causes += _validate_nested(content, f"{field}.properties[{name}]")
    for name, text in _NESTED:
        value = schema.get(name)
        if value or (name in _POINTERS and value is not None):
            causes.append(forbidden_value(f"{field}.{name}", text))
    if "metadata" in properties:
        text = "must not be specified in a nested context"
        causes.append(forbidden_value(f"{field}.properties[metadata]", text))
    return causes


def _validate_complete(schema: Object, specified: Object | None, field: str, nested_field: str) -> list[Cause]:
    """Return an error for each value that *schema* restricts and *specified* does not specify."""
    if specified is None:
        return [required(field, f"because it is defined in {nested_field}")]
    causes: list[Cause] = []
    nested: list[tuple[Object, str]] = []
    if (excluded := schema.get("not")) is not None:
        nested.append((excluded, f"{nested_field}.not"))
    for name in ("allOf", "anyOf", "oneOf"):
        nested += [(item, f"{nested_field}.{name}[{index}]") for index, item in enumerate(schema.get(name) or ())]
    for item, item_field in nested:
        causes += _validate_nested_complete(item, specified, field, item_field)
    return causes


def _validate_nested_complete(schema: Object, specified: Object | None, field: str, nested_field: str) -> list[Cause]:
    if specified is None:
        return [required(field, f"because it is defined in {nested_field}")]
    causes = _validate_complete(schema, specified, field, nested_field)
    if (items := schema.get("items")) is not None:
        causes += _validate_nested_complete(items, specified.get("items"), f"{field}.items", f"{nested_field}.items")
    properties = specified.get("properties") or {}
    for name, content in (schema.get("properties") or {}).items():
        own_field, own_nested = f"{field}.properties[{name}]", f"{nested_field}.properties[{name}]"
        causes += _validate_nested_complete(content, properties.get(name), own_field, own_nested)
    return causes
