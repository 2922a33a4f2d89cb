"""Tests for the CEL rules of the schemas of custom kinds."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.cel.schema_rules import uses_old_self
from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.validation.custom_resource_definitions.rule_costs import Costs
from apiserver_stub.validation.custom_resource_definitions.rules import rules_in, validate_rules
from apiserver_stub.validation.schema_rules.rules import SchemaRulesValidator

KEYED: dict[str, Any] = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}},
}
PROPERTIES: dict[str, Any] = {
    "size": {"type": "integer"},
    "text": {"type": "string"},
    "ratio": {"type": "number"},
    "time": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "wait": {"type": "string", "format": "duration"},
    "data": {"type": "string", "format": "byte"},
    "a-b": {"type": "integer"},
    "in": {"type": "integer"},
    "port": {"x-kubernetes-int-or-string": True},
    "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
    "list": {"type": "array", "items": {"type": "string"}},
    "keyed": KEYED,
    "open": {"type": "array"},
}


def tree(*rules: dict[str, Any], **properties: Any) -> Any:
    spec: dict[str, Any] = {"type": "object", "properties": {**PROPERTIES, **properties}}
    return tree_of(
        {"type": "object", "properties": {"spec": {**spec, **({"x-kubernetes-validations": rules} if rules else {})}}}
    )


def rule(text: str, **more: Any) -> dict[str, Any]:
    return {"rule": text, **more}


def errors(root: Any, new: Any, old: Any = None, *, ratchets: bool = False) -> list[tuple[str, str]]:
    before = None if old is None else {"spec": old}
    found = SchemaRulesValidator(root, ratchets=ratchets).validate({"spec": new}, before, [])
    return [(cause.field, cause.message) for cause in found]


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("self.size > 1", {"size": 2}),
        ("self.ratio == 2.0 && self.ratio / 4.0 == 0.5", {"ratio": 2}),
        ("self.time > timestamp('2020-01-01T00:00:00Z')", {"time": "2021-01-01T00:00:00Z"}),
        ("self.day < timestamp('2020-01-02T00:00:00Z')", {"day": "2020-01-01"}),
        ("self.wait == duration('90s')", {"wait": "1m30s"}),
        ("self.data == b'abc'", {"data": "YWJj"}),
        ("self.a__dash__b == 1 && self.__in__ == 2", {"a-b": 1, "in": 2}),
        ("self.port == 80 || self.port == 'http'", {"port": "http"}),
        ("self.labels.all(name, self.labels[name] > 0)", {"labels": {"x": 1}}),
        ("self.list.exists(item, item == 'a')", {"list": ["a"]}),
        ("'%d-%s' .format([self.size, 'x']) == '2-x'", {"size": 2}),
        ("!has(self.text)", {}),
        ("has(self.text) ? self.text == null : true", {}),
    ],
)
def test_valid_values(text: str, spec: Any) -> None:
    assert errors(tree(rule(text)), spec) == []


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (rule("self.size > 1"), ("spec", 'Invalid value: "object": failed rule: self.size > 1')),
        (rule("self.size > 1", message=" too small "), ("spec", 'Invalid value: "object": too small')),
        (
            rule("self.size > 1", messageExpression="'size is ' + string(self.size)", message="x"),
            ("spec", 'Invalid value: "object": size is 1'),
        ),
        (rule("self.size > 1", messageExpression="' '", message="x"), ("spec", 'Invalid value: "object": x')),
        (rule("self.size > 1", messageExpression="self.nope", message="x"), ("spec", 'Invalid value: "object": x')),
        (
            rule("self.size > 1", message="no", reason="FieldValueForbidden", fieldPath=".size"),
            ("spec.size", "Forbidden: no"),
        ),
        (rule("self.size > 1", message="no", reason="FieldValueRequired"), ("spec", "Required value: no")),
        (rule("self.size > 1", reason="FieldValueDuplicate"), ("spec", 'Duplicate value: "object"')),
        (
            rule("self.text == 'a'"),
            ("spec", "Invalid value: \"object\": no such key: text evaluating rule: self.text == 'a'"),
        ),
        (
            rule("self.port + 1 > 2"),
            (
                "spec",
                "Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, "
                "function or macro signature for rule: self.port + 1 > 2",
            ),
        ),
    ],
)
def test_violated_rule(broken: dict[str, Any], expected: tuple[str, str]) -> None:
    assert errors(tree(broken), {"size": 1, "port": "a"}) == [expected]


def test_rules_of_items_compare_with_the_stored_item_of_the_same_key() -> None:
    items = {**KEYED["items"], "x-kubernetes-validations": [rule("self.v >= oldSelf.v", message="decreased")]}
    root = tree(keyed={**KEYED, "items": items})
    old = {"keyed": [{"name": "a", "v": 3}, {"name": "b", "v": 1}]}

    new = {"keyed": [{"name": "b", "v": 2}, {"name": "a", "v": 2}, {"name": "c", "v": 0}]}
    assert errors(root, new, old) == [("spec.keyed[1]", 'Invalid value: "object": decreased')]
    assert errors(root, new) == []


def test_rules_of_map_values_and_of_the_root() -> None:
    labels = {
        "type": "object",
        "additionalProperties": {"type": "integer", "x-kubernetes-validations": [rule("self > 0")]},
    }
    assert errors(tree(labels=labels), {"labels": {"a": 0}}) == [
        ("spec.labels[a]", 'Invalid value: "integer": failed rule: self > 0')
    ]
    root = tree_of({"type": "object", "x-kubernetes-validations": [rule("self.metadata.name == 'a'")]})
    validator = SchemaRulesValidator(root)
    assert validator.validate({"metadata": {"name": "a", "uid": "1"}}, None, []) == []
    assert [cause.field for cause in validator.validate({"metadata": {"name": "b"}}, None, [])] == ["<nil>"]


def test_optional_stored_value() -> None:
    text = "oldSelf.hasValue() ? self.size >= oldSelf.value().size : self.size == 0"
    root = tree(rule(text, optionalOldSelf=True, message="no"))

    assert [bool(errors(root, {"size": 1}, old, ratchets=True)) for old in (None, {"size": 1}, {"size": 2})] == [
        True,
        False,
        True,
    ]


@pytest.mark.row("gate.CRDValidationRatcheting")
def test_unchanged_values_need_not_be_valid() -> None:
    root, spec = tree(rule("self.size > 1")), {"size": 1}

    assert errors(root, spec, spec, ratchets=True) == []
    assert len(errors(root, spec, spec)) == len(errors(root, spec, {"size": 0}, ratchets=True)) == 1


def test_rule_that_costs_too_much_ends_the_validation() -> None:
    text = "self.list.all(x, self.list.all(y, self.list.all(z, x + y + z != 'b')))"
    expensive, other = rule(text, message="no b"), rule("self.size > 1")

    (found,) = errors(tree(expensive, other), {"list": ["a"] * 60, "size": 0})

    limit = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run"
    assert found == ("spec", f'Invalid value: "object": {limit} due to call cost exceeds limit for rule: no b')
    assert errors(tree(expensive), {"list": ["a"] * 5}) == []


def test_rules_share_a_budget_per_object() -> None:
    matching = rule("self.text.contains(self.text)", message="no")
    last = rule("false")
    text = "a" * 9300  # About 865,000 units each.

    (found,) = errors(tree(*[matching] * 12, last), {"text": text})

    problem = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert found == ("spec", f'Invalid value: "object": {problem}')
    assert [message for _, message in errors(tree(*[matching] * 11, last), {"text": text})] == [
        'Invalid value: "object": failed rule: false'
    ]


def test_message_expression_is_paid_by_the_budget() -> None:
    message = rule("false", messageExpression="self.text.contains(self.text) ? 'no' : 'yes'")

    found = errors(tree(*[message] * 12), {"text": "a" * 9300})

    assert [text.partition(": ")[2] for _, text in found] == [
        *['"object": no'] * 11,
        '"object": messageExpression evaluation failed due to running out of cost budget, no further validation rules '
        "will be run",
    ]


def test_rules_are_skipped_if_the_object_is_invalid() -> None:
    error = Cause("FieldValueRequired", "Required value", "spec.a")

    (found,) = SchemaRulesValidator(tree(rule("self.size > 1"))).validate({"spec": {}}, None, [error])
    assert found.message.startswith('Invalid value: "null": some validation rules were not checked because')


@pytest.mark.parametrize(
    ("broken", "field", "text"),
    [
        (
            rule("self.foo > 1"),
            "rule",
            "compilation failed: ERROR: <input>:1:5: undefined field 'foo'\n | self",
        ),
        (rule("self.size"), "rule", "cel expression must evaluate to a bool"),
        (rule("self.size > 'a'"), "rule", "found no matching overload for '_>_' applied to '(int, string)'"),
        (
            rule("true", messageExpression="self.size"),
            "messageExpression",
            "messageExpression must evaluate to a string",
        ),
        (rule("true", messageExpression="nope"), "messageExpression", "messageExpression compilation failed: "),
        (rule("true", optionalOldSelf=False), "optionalOldSelf", "may not be set if oldSelf is not used in rule"),
    ],
)
def test_invalid_rule(broken: dict[str, Any], field: str, text: str) -> None:
    (found,) = validate_rules(tree(broken), "s", frozenset(), Costs())

    assert found.field == f"s.properties[spec].x-kubernetes-validations[0].{field}"
    assert text in found.message


def test_stored_rules_are_not_compiled_again() -> None:
    root = tree(rule("self.foo > 1"))

    assert list(validate_rules(root, "s", rules_in(root), Costs())) == []


def test_types_of_variables() -> None:
    texts = (
        "self.time > timestamp('2020-01-01T00:00:00Z')",
        "self.wait < duration('1h')",
        "self.ratio > 1",
        "self.keyed.all(item, item.v > 1)",
        "self.labels.all(name, self.labels[name] > 1)",
        "self.port == 1 || self.port == 'a'",
        "oldSelf.optMap(old, old.size < self.size).orValue(true)",
    )
    for text in texts:
        optional = {"optionalOldSelf": True} if "optMap" in text else {}
        assert list(validate_rules(tree(rule(text, **optional)), "s", frozenset(), Costs())) == [], text
    for name in ("list", "labels", "size"):
        content = {**PROPERTIES[name], "x-kubernetes-validations": [rule("self != oldSelf || self == self")]}
        assert list(validate_rules(tree(**{name: content}), "s", frozenset(), Costs())) == [], name


def test_stored_values_of_uncorrelated_items_are_unknown() -> None:
    items = {"type": "string", "maxLength": 10, "x-kubernetes-validations": [rule("self == oldSelf")]}

    (found,) = validate_rules(tree(list={"type": "array", "maxItems": 10, "items": items}), "s", frozenset(), Costs())
    text = (
        "oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[spec].properties[list]"
    )
    assert found.message.endswith(text)


def test_rule_on_a_value_of_unknown_type() -> None:
    content = {"type": "array", "x-kubernetes-validations": [rule("true")]}

    (found,) = validate_rules(tree(open=content), "s", frozenset(), Costs())
    assert (found.reason, found.field) == (
        "InternalError",
        "s.properties[spec].properties[open].x-kubernetes-validations",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("oldSelf.a == 1", True), ("self.oldSelf == 1", False), ("'oldSelf' == self", False), ("self // oldSelf", False)],
)
def test_use_of_the_stored_value(text: str, *, expected: bool) -> None:
    assert uses_old_self(text) is expected
