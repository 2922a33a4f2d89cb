"""Tests for the validation of values against OpenAPI schemas, with upstream's texts."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.cel.patterns import pattern_problem
from apiserver_stub.validation.schema_values.correlation import UNKNOWN
from apiserver_stub.validation.schema_values.formats import format_check
from apiserver_stub.validation.schema_values.patterns import matches
from apiserver_stub.validation.schema_values.values import validator_of


def errors(schema: dict[str, Any], value: Any, old: Any = UNKNOWN) -> list[str]:
    """Return the errors in field ``a`` of an object."""
    found: list[Any] = []
    before = UNKNOWN if old is UNKNOWN else {"a": old}
    validator_of({"type": "object", "properties": {"a": schema}})({"a": value}, "", before, found)
    return [f"{cause.field}: {cause.message}" for cause in found]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "maximum": 3}, 3),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "number", "maximum": 0.5}, 0.5),
    ],
)
def test_limit_includes_its_bound(schema: dict[str, Any], value: Any) -> None:
    assert errors(schema, value) == []


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "string"}, 1, 'a: Invalid value: "integer": a in body must be of type string: "integer"'),
        ({"type": "string"}, None, 'a: Invalid value: "null": a in body must be of type string: "null"'),
        ({"type": "integer"}, 1.5, 'a: Invalid value: "number": a in body must be of type integer: "number"'),
        ({"type": "integer"}, 1 << 63, 'a: Invalid value: "number": a in body must be of type integer: "number"'),
        (
            {"type": "string", "format": "byte"},
            "VmFs=",
            'a: Invalid value: "VmFs=": a in body must be of type byte: "VmFs="',
        ),
        ({"type": "integer"}, True, 'a: Invalid value: "boolean": a in body must be of type integer: "boolean"'),
        ({"type": "integer", "maximum": 3}, 4, "a: Invalid value: 4: a in body should be less than or equal to 3"),
        (
            {"type": "integer", "minimum": 3, "exclusiveMinimum": True},
            3,
            "a: Invalid value: 3: a in body should be greater than 3",
        ),
        ({"type": "number", "multipleOf": 0.5}, 0.7, "a: Invalid value: 0.7: a in body should be a multiple of 0.5"),
        ({"type": "string", "maxLength": 1}, "äö", "a: Too long: may not be longer than 1"),
        (
            {"type": "string", "minLength": 3},
            "ab",
            'a: Invalid value: "ab": a in body should be at least 3 chars long',
        ),
        ({"type": "string", "pattern": "^b"}, "ab", "a: Invalid value: \"ab\": a in body should match '^b'"),
        ({"type": "string", "enum": ["x", 1]}, "y", 'a: Unsupported value: "y": supported values: "x", "1"'),
        ({"type": "string", "enum": ["x", "y"]}, "z", 'a: Unsupported value: "z": supported values: "x", "y"'),
        ({"type": "string", "format": "ipv4"}, "x", 'a: Invalid value: "x": a in body must be of type ipv4: "x"'),
        ({"type": "array", "items": {}, "maxItems": 1}, [1, 2], "a: Too many: 2: must have at most 1 items"),
        (
            {"type": "array", "items": {}, "minItems": 1},
            [],
            "a: Invalid value: 0: a in body should have at least 1 items",
        ),
        ({"type": "object", "required": ["b"]}, {}, "a.b: Required value"),
        (
            {"type": "object", "minProperties": 1},
            {},
            "a: Invalid value: 0: a in body should have at least 1 properties",
        ),
        ({"not": {"required": ["b"]}}, {"b": 1}, '<nil>: Invalid value: "": "a" must not validate the schema (not)'),
        (
            {"x-kubernetes-int-or-string": True},
            [],
            'a: Invalid value: "array": a in body must be of type integer,string: "array"',
        ),
    ],
)
def test_violated_rules_are_reported_as_upstream(schema: dict[str, Any], value: Any, message: str) -> None:
    assert errors(schema, value) == [message]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 2.0),
        ({"type": "number"}, 2),
        ({"type": "number", "enum": [1.5, 2]}, 1.5),
        ({"type": "number", "enum": [1.5, 2]}, 2.0),
        ({"type": "string", "nullable": True}, None),
        ({"type": "string", "format": "unknown"}, "x"),
        ({"type": "array", "items": {"type": "string"}}, ["a"]),
        ({"x-kubernetes-int-or-string": True}, "10%"),
        ({"anyOf": [{"required": ["b"]}, {"required": ["c"]}]}, {"c": 1}),
        ({"additionalProperties": {"type": "string"}}, {"b": "c"}),
    ],
)
def test_valid_values_have_no_errors(schema: dict[str, Any], value: Any) -> None:
    assert errors(schema, value) == []


def test_alternatives_report_the_errors_of_the_closest_one() -> None:
    schema = {"oneOf": [{"required": ["b"]}, {"required": ["c"], "properties": {"d": {"enum": [1]}}}]}

    assert errors(schema, {"d": 1}) == [
        '<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found none valid',
        "a.c: Required value",
    ]
    assert errors(schema, {"b": 1, "c": 1}) == [
        '<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found 2 valid alternatives'
    ]


def test_unchanged_values_are_not_reported() -> None:
    schema = {"type": "object", "properties": {"b": {"type": "string"}, "c": {"type": "string"}}}

    assert errors(schema, {"b": 1, "c": 2}, old={"b": 1, "c": 3}) == [
        'a.c: Invalid value: "integer": a.c in body must be of type string: "integer"'
    ]


def test_unchanged_items_are_found_by_key() -> None:
    items = {"type": "object", "properties": {"k": {"type": "string"}, "n": {"type": "integer", "maximum": 1}}}
    keyed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": items}
    old, new = [{"k": "x", "n": 5}], [{"k": "y", "n": 6}, {"k": "x", "n": 5}]

    assert [text.partition(":")[0] for text in errors(keyed, new, old)] == ["a[0].n"]
    assert [text.partition(":")[0] for text in errors({"type": "array", "items": items}, new, old)] == [
        "a[0].n",
        "a[1].n",
    ]


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2024-01-01T00:00:00Z", "2024-01-01"),
        ("date-time", "2024-01-01t23:59:59.5+01:00", "2024-01-01T24:00:00Z"),
        ("date-time", "2024-01-01T00:00:00Z", "2024-01-01T00:60:00Z"),
        ("date-time", "2024-01-01T00:00:00Z", "2024-01-01T00:00:60Z"),
        ("date-time", "2024-01-01T00:00:00Z", "2024-13-01T00:00:00Z"),
        ("date-time", "2024-01-01T00:00:00Z", "2024-01-01T\u0661\u0662:00:00Z"),
        ("date", "2024-01-01", "\u0662024-01-01"),
        ("duration", "1h30m", "soon"),
        ("email", "a@b.example", "a"),
        ("hostname", "a.example", "a_.example"),
        ("ipv6", "fe80::1", "10.0.0.1"),
        ("mac", "00:00:5e:00:53:01", "00:00"),
        ("uri", "https://a.example/x", "::"),
        ("uuid4", "7c2bc8a1-7a3c-4f1b-9d2e-0a1b2c3d4e5f", "7c2bc8a1-7a3c-1f1b-9d2e-0a1b2c3d4e5f"),
        ("byte", "YQ==", "%"),
        ("isbn", "0321751043", "0321751044"),
        ("isbn", "0-321-75104-3", "\u0660321751043"),
        ("isbn", "080442957X", "0804429570"),
        ("isbn13", "978-3-16-148410-0", "9783161484101"),
        ("isbn13", "978-3-16-148410-0", "978\u0663161484100"),
        ("ssn", "123-45-6789", "\u0661\u0662\u0663-45-6789"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("rgbcolor", "rgb(1, 2, 255)", "rgb(1, 2, 256)"),
        ("k8s-short-name", "a-1", "a.b"),
        ("k8s-long-name", "a.b", "A"),
    ],
)
def test_formats_are_validated(name: str, valid: str, invalid: str) -> None:
    check = format_check(name)
    assert check is not None

    assert check(valid)
    assert not check(invalid)


def test_formats_of_numbers_are_not_validated() -> None:
    assert format_check("int32") is None


def test_patterns_have_the_syntax_of_go() -> None:
    assert matches(r"^\pL+$", "ä")
    assert matches('"', 'a"b')
    assert pattern_problem("[a") == "error parsing regexp: missing closing ]: `[a`"
    assert pattern_problem("a(?=b)").startswith("error parsing regexp: invalid or unsupported Perl syntax")
    assert pattern_problem("^a$") == ""
