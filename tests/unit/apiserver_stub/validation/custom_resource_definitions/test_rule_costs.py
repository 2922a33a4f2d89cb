"""Tests for the limits of the estimated costs of rules, with the texts of kube-apiserver 1.29."""

from __future__ import annotations

from typing import Any

from apiserver_stub.validation.custom_resource_definitions import validate_definition
from tests.unit.apiserver_stub.validation.custom_resource_definitions.test_definition import ROOT, errors, of_spec

HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
TEXT = {"type": "string", "maxLength": 10}
TOTAL = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of"


def of_fields(**fields: dict[str, Any]) -> dict[str, Any]:
    return of_spec({"type": "object", "properties": fields})


def ruled(schema: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more}]}


def limited_map(most_items: int) -> dict[str, Any]:
    numbers = {"type": "array", "maxItems": most_items, "items": {"type": "integer"}}
    value = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}, "b": numbers}}
    return {"type": "object", "additionalProperties": ruled(value, "self.b.all(x, x > self.a)")}


def test_expensive_rule_is_rejected_with_the_factor() -> None:
    rule = f"{ROOT}.properties[spec].properties[m].additionalProperties.x-kubernetes-validations[0].rule"

    found = errors(validate_definition(of_fields(m=limited_map(20))))

    assert found == [f"{rule}: Forbidden: estimated rule cost exceeds budget by factor of 5.0x {HINT}"]
    assert validate_definition(of_fields(m=limited_map(2))) == []


def test_rule_without_limits_is_rejected() -> None:
    nested = {"type": "array", "items": TEXT}
    schema = {"type": "array", "items": ruled(nested, "self.all(x, x.startsWith('a'))")}
    rule = f"{ROOT}.properties[spec].properties[l].items.x-kubernetes-validations[0].rule"

    assert errors(validate_definition(of_fields(l=schema))) == [
        f"{rule}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {HINT}",
        f"{rule}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
        f"{ROOT}: Forbidden: {TOTAL} more than 100x {HINT}",
    ]


def test_sum_of_all_rules_is_limited() -> None:
    fields = {
        f"l{number:02}": {"type": "array", "maxItems": 3_000_000 - number, "items": ruled(TEXT, "self != 'a'")}
        for number in range(20)
    }

    *contributions, total = errors(validate_definition(of_fields(**fields)))

    assert total == f"{ROOT}: Forbidden: {TOTAL} 1.199996x {HINT}"
    assert [text.partition(".items")[0][-4:] for text in contributions] == ["l00]", "l01]", "l02]", "l03]"]


def test_message_expression_is_limited() -> None:
    value = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
    expression = "self.a.contains(self.a) ? 'a' : 'b'"
    schema = ruled(value, "true", messageExpression=expression)

    found = errors(validate_definition(of_fields(o=schema)))

    assert found[0].endswith(f"estimated messageExpression cost exceeds budget by factor of more than 100x {HINT}")


def test_unchanged_schema_may_have_expensive_rules() -> None:
    old = of_fields(m=limited_map(20))
    new = of_fields(m=limited_map(20))
    new["spec"]["names"]["shortNames"] = ["wd"]

    assert validate_definition(new, old) == []
