"""Validation of CustomResourceDefinitions.

Errors name the fields of upstream's internal form: schemas, subresources and columns that are equal in all versions
are fields of ``spec``, and the webhook of a conversion is part of the conversion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, not_supported, quote, required
from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.validation.custom_resource_definitions.approval import validate_approval
from apiserver_stub.validation.custom_resource_definitions.conversion import validate_conversion
from apiserver_stub.validation.custom_resource_definitions.defaults import validate_defaults
from apiserver_stub.validation.custom_resource_definitions.names import validate_names
from apiserver_stub.validation.custom_resource_definitions.openapi import (
    SchemaContext,
    validate_list_keys,
    validate_schema,
    validate_set_items,
)
from apiserver_stub.validation.custom_resource_definitions.rule_costs import Costs
from apiserver_stub.validation.custom_resource_definitions.rules import rules_in, validate_rules
from apiserver_stub.validation.custom_resource_definitions.selectable_fields import validate_selectable_fields
from apiserver_stub.validation.custom_resource_definitions.stored_versions import validate_stored_versions
from apiserver_stub.validation.custom_resource_definitions.structural import (
    conversion_problem,
    is_convertible,
    validate_structural,
)
from apiserver_stub.validation.custom_resource_definitions.subresources import validate_column, validate_subresources
from apiserver_stub.validation.custom_resource_definitions.walk import schemas_in
from nodeagent.base.names import service_name_problems, subdomain_problems

_SCOPES = ("Cluster", "Namespaced")
_IMMUTABLE = "field is immutable"
_PRESERVE = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
_WARNING_LIMIT_BYTES = 256
_VERSION = "apiextensions.CustomResourceDefinitionVersion"
_ROOT_FIELDS = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
    "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
    "XValidations"
)
"""Go names of the fields that the root of a schema may have if there is a status subresource."""
_EXCLUDED_AT_ROOT = (
    "id",
    "$schema",
    "enum",
    "allOf",
    "oneOf",
    "anyOf",
    "patternProperties",
    "definitions",
    "nullable",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
)
_POINTERS = (
    "$ref",
    "default",
    "maxProperties",
    "minProperties",
    "not",
    "additionalProperties",
    "additionalItems",
    "dependencies",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
)
"""Further ones, which are set also if they are empty."""


def definition_name_problems(name: str, definition: Object) -> list[str]:
    """Return why *name* is not the name of *definition*: its plural and its group."""
    spec = definition["spec"]
    problems = subdomain_problems(name)
    if name != f"{spec['names'].get('plural') or ''}.{spec.get('group') or ''}":
        problems = [*problems, 'must be spec.names.plural+"."+spec.group']
    return problems


def validate_definition(new: Object, old: Object | None = None) -> list[Cause]:
    """Return the errors in a definition; *old* is the stored one."""
    causes = list(_validate_spec(new["spec"], old["spec"] if old is not None else None))
    if old is not None:
        causes += _validate_unchanged(new, old)
    causes += validate_definition_status(new)
    causes += validate_stored_versions(new)
    causes += validate_approval(new, old)
    if new["spec"].get("preserveUnknownFields") and not (old or {}).get("spec", {}).get("preserveUnknownFields"):
        causes.append(invalid_value("spec.preserveUnknownFields", True, _PRESERVE))
    return causes


def validate_definition_status(new: Object) -> list[Cause]:
    """Return the errors in the status of a definition."""
    return validate_names((new.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames")


def _validate_spec(spec: Object, before: Object | None) -> Iterator[Cause]:
    yield from _validate_group(spec.get("group") or "")
    scope = spec.get("scope") or ""
    if not scope:
        yield required("spec.scope")
    elif scope not in _SCOPES:
        yield not_supported("spec.scope", scope, _SCOPES)
    versions = spec.get("versions") or []
    if before is None or all(_schema_of(version) is not None for version in before.get("versions") or ()):
        for index, version in enumerate(versions):
            if _schema_of(version) is None:
                yield required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")
    yield from _validate_version_names(versions)
    names = spec["names"]
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            yield required(f"spec.names.{name}")
    yield from validate_names(names, "spec.names")
    yield from _validate_version_fields(versions, SchemaRules(before))
    conversion = spec.get("conversion")
    if spec.get("preserveUnknownFields") and _has_defaults(versions):
        yield invalid_value("spec.preserveUnknownFields", True, "must be false in order to use defaults in the schema")
    if spec.get("preserveUnknownFields") and conversion and conversion.get("strategy") != "None":
        text = "must be None if spec.preserveUnknownFields is true"
        yield invalid_value("spec.conversion.strategy", conversion.get("strategy") or "", text)
    yield from validate_conversion(conversion, before.get("conversion") if before is not None else None)


def _has_defaults(versions: list[Object]) -> bool:
    schemas = (schema for version in versions for schema in schemas_in(_schema_of(version)))
    return any(schema.get("default") is not None for schema in schemas)


def _schema_of(version: Object) -> Object | None:
    schema: Object | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def _validate_group(group: str) -> list[Cause]:
    if not group:
        return [required("spec.group")]
    if problems := subdomain_problems(group):
        return [invalid_value("spec.group", group, ",".join(problems))]
    if "." not in group:
        return [invalid_value("spec.group", group, "should be a domain with at least one dot")]
    return []


def _validate_version_names(versions: list[Object]) -> Iterator[Cause]:
    for index, version in enumerate(versions):
        field, name = f"spec.versions[{index}]", version.get("name") or ""
        if problems := service_name_problems(name):
            yield invalid_value(f"{field}.name", name, ",".join(problems))
        for problem in _warning_problems(version):
            yield invalid_value(f"{field}.deprecationWarning", version["deprecationWarning"], problem)
    names = [version.get("name") for version in versions]
    if len(set(names)) < len(names):
        yield _invalid_versions(versions, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield _invalid_versions(versions, "must have exactly one version marked as storage version")
    if versions and names[0] and (problems := service_name_problems(names[0])):
        yield invalid_value("spec.version", names[0], ",".join(problems))


def _invalid_versions(versions: list[Object], detail: str) -> Cause:
    """Return the error about all *versions*, of which upstream prints Go structures."""
    items = ", ".join(f"{_VERSION}{{Name:{quote(item.get('name') or '')}}}" for item in versions)
    return Cause("FieldValueInvalid", f"Invalid value: []{_VERSION}{{{items}}}: {detail}", "spec.versions")


def _warning_problems(version: Object) -> list[str]:
    text = version.get("deprecationWarning")
    if text is None:
        return []
    if not version.get("deprecated"):
        return ["can only be set for deprecated versions"]
    problems = []
    if len(text.encode()) > _WARNING_LIMIT_BYTES:
        problems.append(f"must be <= {_WARNING_LIMIT_BYTES} characters long")
    if not text:
        problems.append("must not be an empty string")
    position = 0
    for character in text:
        if not character.isprintable():
            rule = "must only contain printable UTF-8 characters; non-printable character found at index"
            problems.append(f"{rule} {position}")
            break
        position += len(character.encode())
    return problems


# Fields of the versions, which are fields of the definition where they are equal


def _validate_version_fields(versions: list[Object], rules: SchemaRules) -> Iterator[Cause]:
    has_status = [(version.get("subresources") or {}).get("status") is not None for version in versions]
    for schema, index, field in _fields_of(versions, "schema", "validation"):
        found = (schema or {}).get("openAPIV3Schema")
        status = any(has_status) if index is None else has_status[index]
        if found is not None:
            yield from rules.validate(found, f"{field}.openAPIV3Schema", has_status=status)
    for subresources, _, field in _fields_of(versions, "subresources", "subresources"):
        yield from validate_subresources(subresources, field)
    for columns, _, field in _fields_of(versions, "additionalPrinterColumns", "additionalPrinterColumns"):
        for number, column in enumerate(columns or ()):
            yield from validate_column(column, f"{field}[{number}]")
    for items, index, field in _fields_of(versions, "selectableFields", "selectableFields"):
        schema = _schema_of(versions[index]) if index is not None else _common_schema(versions)
        yield from validate_selectable_fields(items or [], schema, field)


def _common_schema(versions: list[Object]) -> Object | None:
    """Return the schema of all versions, ``None`` if they differ or have none."""
    schema = versions[0].get("schema")
    if schema is None or any(version.get("schema") != schema for version in versions):
        return None
    return schema.get("openAPIV3Schema") or {}


def _fields_of(versions: list[Object], name: str, common_name: str) -> Iterable[tuple[Any, int | None, str]]:
    """Yield each value of field *name*, the index of its version unless it is common to all, and its path."""
    values = [version.get(name) for version in versions]
    if values and all(value == values[0] for value in values):
        return [(values[0], None, f"spec.{common_name}")]
    return [(value, index, f"spec.versions[{index}].{name}") for index, value in enumerate(values)]


class SchemaRules:
    """Rules for the schemas of a definition; rules that the stored one violates are not applied to an update."""

    def __init__(self, before: Object | None) -> None:
        schemas = [_schema_of(version) for version in (before or {}).get("versions") or ()]
        self._stored = stored = [schema for schema in schemas if schema is not None]
        self._structural = not any(
            not is_convertible(schema) or validate_structural(schema, "") for schema in stored
        ) or not (before or {}).get("preserveUnknownFields")
        self._known = frozenset[tuple[str, str]]().union(
            *(rules_in(tree_of(schema)) for schema in stored if is_convertible(schema))
        )
        every = [schema for item in stored for schema in schemas_in(item)]
        self._context = SchemaContext(
            sets_of_atoms=not any(_is_invalid_set(schema) for schema in every),
            keys_required=not any(any(validate_list_keys(schema, "")) for schema in every),
        )

    def validate(self, schema: Object, field: str, *, has_status: bool) -> list[Cause]:
        """Return the errors in *schema*."""
        causes = list(_validate_root(schema, field)) if has_status else []
        if schema.get("nullable"):
            causes.append(forbidden_value(f"{field}.nullable", "nullable cannot be true at the root"))
        problem = conversion_problem(schema)
        if self._structural and problem is None:
            if errors := validate_structural(schema, field):
                causes += errors
            else:
                causes += validate_defaults(tree_of(schema), field)
        causes += validate_schema(schema, field, self._context, is_root=True)
        if self._structural and problem is not None and not causes:
            causes.append(invalid_value(field, "", problem))
        if not causes and is_convertible(schema):
            costs = Costs(checks_each=schema not in self._stored)
            causes += validate_rules(tree_of(schema), field, self._known, costs)
        return causes


def _validate_root(schema: Object, field: str) -> Iterator[Cause]:
    """Yield an error if the root has restrictions that do not apply to the status subresource."""
    is_excluded = any(schema.get(name) for name in _EXCLUDED_AT_ROOT) or any(
        schema.get(name) is not None for name in _POINTERS
    )
    precedes_type = bool(schema.get("id") or schema.get("$schema")) or schema.get("$ref") is not None
    if schema.get("type") not in (None, "", "object") and not precedes_type:
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield invalid_value(f"{field}.type", schema["type"], text)
    elif is_excluded:
        text = (
            f"only [{_ROOT_FIELDS}] fields are allowed at the root of the schema if the status subresource is enabled"
        )
        yield invalid_value(field, schema, text)


def _is_invalid_set(schema: Object) -> bool:
    items = schema.get("items")
    is_set = schema.get("x-kubernetes-list-type") == "set"
    return is_set and isinstance(items, dict) and any(validate_set_items(items, ""))


def _validate_unchanged(new: Object, old: Object) -> list[Cause]:
    spec, before = new["spec"], old["spec"]
    causes: list[Cause] = []
    conditions = (old.get("status") or {}).get("conditions") or ()
    if any(item.get("type") == "Established" and item.get("status") == "True" for item in conditions):
        causes += _immutable("spec.scope", spec.get("scope"), before.get("scope"))
        causes += _immutable("spec.names.kind", spec["names"].get("kind"), before["names"].get("kind"))
    causes += _immutable("spec.group", spec.get("group"), before.get("group"))
    return causes + _immutable("spec.names.plural", spec["names"].get("plural"), before["names"].get("plural"))


def _immutable(field: str, new: object, old: object) -> list[Cause]:
    return [invalid_value(field, new, _IMMUTABLE)] if new != old else []
