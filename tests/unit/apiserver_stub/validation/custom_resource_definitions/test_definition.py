"""Tests for the validation of CustomResourceDefinitions, with upstream's fields and texts."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.custom_resource_definitions import set_defaults
from apiserver_stub.validation.custom_resource_definitions import validate_definition

ROOT = "spec.validation.openAPIV3Schema"
SPEC, A = f"{ROOT}.properties[spec]", f"{ROOT}.properties[spec].properties[a]"


def definition(schema: Any = None, version: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    v1 = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema or {"type": "object"}}}
    found = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [v1 | (version or {})],
            **spec,
        },
        "status": {},
    }
    set_defaults(found)
    return found


def errors(found: list[Cause]) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in found]


def of_spec(schema: dict[str, Any]) -> dict[str, Any]:
    return definition({"type": "object", "properties": {"spec": schema}})


def of_field(schema: dict[str, Any]) -> dict[str, Any]:
    return of_spec({"type": "object", "properties": {"a": schema}})


def test_versions_must_have_different_names() -> None:
    version = definition()["spec"]["versions"][0]
    found = definition(versions=[version, {**version, "storage": False}])
    go = "apiextensions.CustomResourceDefinitionVersion"
    shown = f'[]{go}{{{go}{{Name:"v1"}}, {go}{{Name:"v1"}}}}'

    assert errors(validate_definition(found)) == [
        f"spec.versions: Invalid value: {shown}: must contain unique version names"
    ]


ITEM = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
KEYED = {"type": "array", "x-kubernetes-list-type": "map"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, [f"{A}.type: Required value: must not be empty for specified object fields"]),
        ({"type": "array"}, [f"{A}.items: Required value: must be specified"]),
        (
            {"type": "array", "items": {}},
            [f"{A}.items.type: Required value: must not be empty for specified array items"],
        ),
        (
            {"type": "string", "pattern": "[a"},
            [
                f'{A}.pattern: Invalid value: "[a": must be a valid regular expression, but isn\'t: '
                "error parsing regexp: missing closing ]: `[a`"
            ],
        ),
        (
            {"type": "string", "default": 1},
            [f'{A}.default: Invalid value: "integer":  in body must be of type string: "integer"'],
        ),
        (
            {"type": "object", "default": {"x": 1}},
            [f'{A}.default: Invalid value: map[string]interface {{}}{{"x":1}}: must not have unknown fields'],
        ),
        (
            {"type": "object", "anyOf": [{"type": "object"}]},
            [f"{A}.anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, []),
        (
            {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
            [f"{A}.type: Required value: must be object if x-kubernetes-embedded-resource is true"],
        ),
        (
            {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}},
            [f"{A}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            [
                f"{A}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes "
                "quadratic"
            ],
        ),
        ({"$ref": "#/x"}, [f"{A}.$ref: Forbidden: $ref is not supported"]),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
            [
                f'{A}.items.x-kubernetes-map-type: Invalid value: "null": must be atomic as item of a list with '
                "x-kubernetes-list-type=set"
            ],
        ),
        (
            {**KEYED, "items": ITEM},
            [f"{A}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"],
        ),
        ({**KEYED, "items": ITEM, "x-kubernetes-list-map-keys": ["k"]}, []),
        (
            {**KEYED, "items": {**ITEM, "required": []}, "x-kubernetes-list-map-keys": ["k"]},
            [
                f"{A}.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so "
                "it must have a default or be a required property"
            ],
        ),
        (
            {"type": "string", "x-kubernetes-map-type": "other"},
            [
                f'{A}.type: Invalid value: "string": must be object if x-kubernetes-map-type is specified',
                f'{A}.x-kubernetes-map-type: Unsupported value: "other": supported values: "atomic", "granular"',
            ],
        ),
        (
            {"type": "string", "x-kubernetes-validations": [{"rule": " ", "reason": "Other"}]},
            [
                f"{A}.x-kubernetes-validations[0].rule: Required value: rule is not specified",
                f'{A}.x-kubernetes-validations[0].reason: Unsupported value: "Other": supported values: '
                '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"',
            ],
        ),
    ],
)
def test_schema_of_a_field_follows_the_rules(schema: dict[str, Any], expected: list[str]) -> None:
    assert errors(validate_definition(of_field(schema))) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"properties": {"a": {"type": "string"}}}, f"{ROOT}.type: Required value: must not be empty at the root"),
        ({"type": "string"}, f'{ROOT}.type: Invalid value: "string": must be object at the root'),
        (
            {
                "type": "object",
                "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
            },
            f"{ROOT}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified",
        ),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "default": {}}}},
            f"{ROOT}.properties[metadata].default: Forbidden: must not be set in top-level metadata",
        ),
        (
            {"type": "object", "not": {"required": ["b"], "properties": {"b": {}}}},
            f"{ROOT}.properties[b]: Required value: because it is defined in {ROOT}.not.properties[b]",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "$schema": "b"}}},
            f"{ROOT}: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported",
        ),
        (
            {"type": "object", "default": {"kind": "a"}},
            f"{ROOT}.default.apiVersion: Required value: must not be empty",
        ),
        ({"type": "object", "dependencies": {}}, f"{ROOT}.dependencies: Forbidden: dependencies is not supported"),
        ({"type": "object", "nullable": True}, f"{ROOT}.nullable: Forbidden: nullable cannot be true at the root"),
    ],
)
def test_root_of_a_schema_follows_the_rules(schema: dict[str, Any], expected: str) -> None:
    assert errors(validate_definition(definition(schema))) == [expected]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            {"deprecationWarning": "x"},
            'spec.versions[0].deprecationWarning: Invalid value: "x": can only be set for deprecated versions',
        ),
        (
            {"additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": "a"}]},
            'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with .',
        ),
        (
            {"subresources": {"scale": {"specReplicasPath": ".x.r", "statusReplicasPath": ".status.r"}}},
            'spec.subresources.scale.specReplicasPath: Invalid value: ".x.r": should be a json path under .spec',
        ),
        ({"schema": None}, "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"),
    ],
)
def test_fields_of_a_version_follow_the_rules(version: dict[str, Any], expected: str) -> None:
    assert errors(validate_definition(definition(version=version))) == [expected]


def test_fields_that_differ_between_versions_are_named_by_version() -> None:
    new = definition({"type": "string"})
    new["spec"]["versions"].append({"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": {}}})

    fields = [cause.field for cause in validate_definition(new)]

    assert fields == [
        "spec.versions[0].schema.openAPIV3Schema.type",
        "spec.versions[1].schema.openAPIV3Schema.type",
    ]


@pytest.mark.parametrize(
    ("conversion", "expected"),
    [
        (
            {"strategy": "Other"},
            ['spec.conversion.strategy: Unsupported value: "Other": supported values: "None", "Webhook"'],
        ),
        (
            {"strategy": "Webhook"},
            [
                "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
                "spec.conversion.conversionReviewVersions: Required value",
            ],
        ),
        (
            {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v3"]},
            },
            [
                'spec.conversion.conversionReviewVersions: Invalid value: []string{"v3"}: must include at least one of '
                "v1, v1beta1"
            ],
        ),
    ],
)
def test_conversion_follows_the_rules(conversion: dict[str, Any], expected: list[str]) -> None:
    assert errors(validate_definition(definition(conversion=conversion))) == expected


def test_protected_group_requires_an_approval() -> None:
    new = definition(group="gateway.networking.k8s.io")
    (error,) = errors(validate_definition(new))
    assert error.startswith("metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must")

    new["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com/approval"}
    assert validate_definition(new) == []

    new["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, experimental"}
    assert validate_definition(new) == []


def test_rules_that_the_stored_definition_violates_are_not_applied() -> None:
    old = of_field({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"})
    new = deepcopy(old)
    new["spec"]["names"]["shortNames"] = ["wd"]

    assert validate_definition(new, old) == []


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"rule": "self > 0"}, []),
        ({"rule": "self > 1"}, ['Invalid value: "integer": failed rule: self > 1']),
        ({"rule": "oldSelf == self"}, []),
        (
            {"rule": "oldSelf.hasValue()", "optionalOldSelf": True},
            ['Invalid value: "integer": failed rule: oldSelf.hasValue()'],
        ),
    ],
)
def test_defaults_obey_the_expressions(rule: dict[str, Any], expected: list[str]) -> None:
    found = validate_definition(of_field({"type": "integer", "default": 1, "x-kubernetes-validations": [rule]}))

    assert errors(found) == [f"{A}.default: {text}" for text in expected]


def test_invalid_expressions_make_defaults_invalid() -> None:
    schema = {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "nope"}]}

    assert [cause.field for cause in validate_definition(of_field(schema))] == [f"{A}.default"]


@pytest.mark.parametrize(
    ("root", "field"),
    [
        ({"minProperties": 0}, ROOT),
        ({"not": {}}, ROOT),
        ({"x-kubernetes-map-type": "atomic"}, ROOT),
        ({"type": "array", "items": {"type": "string"}}, f"{ROOT}.type"),
        ({"type": "array", "items": {"type": "string"}, "$schema": "a"}, ROOT),
        ({"enum": None, "nullable": False}, ""),
    ],
)
def test_status_subresource_limits_the_root_of_a_schema(root: dict[str, Any], field: str) -> None:
    new = definition({"type": "object", **root}, {"subresources": {"status": {}}})

    found = [cause.field for cause in validate_definition(new) if "status subresource is enabled" in cause.message]

    assert found == ([field] if field else [])


def test_paths_of_expressions_are_not_checked_in_unsupported_schemas() -> None:
    rule = {"rule": "true", "fieldPath": ".nope"}
    schema = {"type": "object", "x-kubernetes-validations": [rule]}

    assert errors(validate_definition(of_field(schema))) == [
        f'{A}.x-kubernetes-validations[0].fieldPath: Invalid value: ".nope": fieldPath must be a valid path'
    ]
    assert errors(validate_definition(of_field({**schema, "id": "a"}))) == [f"{A}.id: Forbidden: id is not supported"]


def test_defaults_exclude_unknown_fields_in_all_objects() -> None:
    new = of_field({"type": "string", "default": "x"})
    new["spec"]["preserveUnknownFields"] = True

    found = [cause.message for cause in validate_definition(new) if cause.field == "spec.preserveUnknownFields"]

    assert len(found) == 2
    assert "must be false in order to use defaults in the schema" in found[0]


def test_repeated_storage_version_is_missing_from_the_stored_ones() -> None:
    new = definition()
    new["spec"]["versions"].append(deepcopy(new["spec"]["versions"][0]))
    new["status"]["storedVersions"] = ["v1"]

    fields = [cause.field for cause in validate_definition(new)]

    assert fields == ["spec.versions", "spec.versions", "status.storedVersions"]


COLOR = {"type": "object", "properties": {"color": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schemas", "expected"),
    [
        ((COLOR, COLOR), []),
        (
            (COLOR, {**COLOR, "title": "x"}),
            ['spec.selectableFields: Invalid value: "": may only be set when validations.schema is included'],
        ),
    ],
)
def test_common_selectable_fields_require_a_common_schema(schemas: Any, expected: list[str]) -> None:
    new = definition()
    new["spec"]["versions"] = [
        {
            "name": f"v{number}",
            "served": True,
            "storage": not number,
            "schema": {"openAPIV3Schema": schema},
            "selectableFields": [{"jsonPath": ".color"}],
        }
        for number, schema in enumerate(schemas)
    ]
    new["status"]["storedVersions"] = ["v0"]

    found = [error for error in errors(validate_definition(new)) if "versions[" not in error]

    assert found == expected
