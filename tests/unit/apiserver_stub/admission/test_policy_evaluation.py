"""Tests for the evaluation of ValidatingAdmissionPolicies; the expected results are those of kube-apiserver 1.29."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.policy_evaluation import Failure, ValidatingPolicy, Validation
from apiserver_stub.cel import CelError

OBJECT = {"metadata": {"name": "x"}, "data": {"a": "1", "b": "2"}}


def evaluation(**spec: Any) -> Validation:
    data = {"object": OBJECT, "oldObject": None, "request": {}, "params": None, "namespaceObject": None}
    return Validation(ValidatingPolicy({"metadata": {"name": "p"}, "spec": spec}), data)


def named(**expressions: str) -> list[dict[str, str]]:
    return [{"name": name, "expression": text} for name, text in expressions.items()]


def annotated(**expressions: str) -> list[dict[str, str]]:
    return [{"key": key, "valueExpression": text} for key, text in expressions.items()]


def test_audit_annotation_uses_variables_that_refer_to_others() -> None:
    found = evaluation(
        variables=named(keys="size(object.data)", more="variables.keys + 1"),
        auditAnnotations=annotated(k="'has ' + string(variables.more)"),
    )

    assert list(found.annotations()) == [("k", "has 3")]


def test_audit_annotation_is_trimmed_and_omitted_if_empty() -> None:
    found = evaluation(auditAnnotations=annotated(a="'  x  '", b="null", c="'  '"))

    assert list(found.annotations()) == [("a", "x")]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("Fail", [Failure("expression 'string(object.data.z)' resulted in error: no such key: z")]),
        ("Ignore", []),
    ],
)
def test_audit_annotation_without_a_value_follows_the_failure_policy(policy: str, expected: list[Failure]) -> None:
    found = evaluation(failurePolicy=policy, auditAnnotations=annotated(a="string(object.data.z)"))

    assert list(found.annotations()) == expected


def test_failing_variable_is_reported_where_it_is_needed() -> None:
    found = evaluation(
        variables=named(bad="object.data.z"),
        validations=[
            {"expression": "true || variables.bad == 'x'"},
            {"expression": "variables.bad == 'x'"},
        ],
        auditAnnotations=annotated(a="'fine'"),
    )

    (failure,) = found.failures()
    assert failure == Failure(
        "expression 'variables.bad == 'x'' resulted in error: "
        'composited variable "bad" fails to evaluate: no such key: z',
        index=1,
    )
    assert list(found.annotations()) == [("a", "fine")]


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"messageExpression": "' a\\n'"}, "a"),
        ({"messageExpression": "'a\\nb'", "message": " m "}, "m"),
        ({"messageExpression": "string(object.data.z)", "message": "m"}, "m"),
        ({}, "failed expression: false"),
    ],
)
def test_message_falls_back_from_expression_to_text(validation: dict[str, str], message: str) -> None:
    (failure,) = evaluation(validations=[{"expression": " false ", **validation}]).failures()

    assert failure.message == message


def test_unmet_match_condition_takes_precedence_over_errors() -> None:
    assert not evaluation(matchConditions=named(e="object.data.z == '1'", f="false")).applies()
    with pytest.raises(CelError, match=r"expression 'object\.data\.z == '1'' resulted in error: no such key: z"):
        evaluation(matchConditions=named(e="object.data.z == '1'", t="true")).applies()


EXPENSIVE = "object.text.contains(object.text)"
"""Costs about 865,000 units with TEXT, so the budget pays for 11 evaluations."""
TEXT = {"text": "a" * 9300}


def expensive(count: int, **spec: Any) -> Validation:
    found = evaluation(**spec, validations=[{"expression": EXPENSIVE}] * count)
    found._data["object"] = TEXT
    return found


def test_validations_that_cost_too_much_are_one_failure() -> None:
    problem = "validation failed due to running out of cost budget, no further validation rules will be run"

    assert list(expensive(11).failures()) == []
    assert list(expensive(12).failures()) == [Failure(problem)]
    assert list(expensive(12, failurePolicy="Ignore").failures()) == []


def test_variables_are_paid_by_the_budget() -> None:
    variables = named(**{f"v{number}": EXPENSIVE for number in range(12)})
    uses = " && ".join(f"variables.v{number}" for number in range(12))
    found = evaluation(variables=variables, validations=[{"expression": uses}])
    found._data["object"] = TEXT

    (failure,) = found.failures()

    assert "running out of cost budget" in failure.message


def test_match_conditions_have_a_smaller_budget() -> None:
    conditions = [{"name": str(number), "expression": EXPENSIVE} for number in range(3)]
    found, fewer = evaluation(matchConditions=conditions), evaluation(matchConditions=conditions[:2])
    found._data["object"] = fewer._data["object"] = TEXT

    assert fewer.applies()
    with pytest.raises(CelError, match="running out of cost budget"):
        found.applies()


def test_expression_above_the_call_limit_is_a_failure() -> None:
    text = "sets.contains(object.list, object.list)"
    found = evaluation(validations=[{"expression": text}])
    found._data["object"] = {"list": list(range(1100))}

    problem = "operation cancelled: actual cost limit exceeded"
    assert list(found.failures()) == [Failure(f"expression '{text}' resulted in error: {problem}")]


def test_errors_of_several_match_conditions_are_listed() -> None:
    conditions = named(a="object.data.z == '1'", b="object.data.y == '1'")
    texts = [f"expression 'object.data.{key} == '1'' resulted in error: no such key: {key}" for key in "zy"]

    with pytest.raises(CelError) as error:
        evaluation(matchConditions=conditions).applies()

    assert str(error.value) == f"[{', '.join(texts)}]"


def test_text_that_looks_like_a_variable_needs_no_definition() -> None:
    assert list(evaluation(validations=[{"expression": "'variables.none' != ''"}]).failures()) == []


@pytest.mark.parametrize(("size", "expected"), [(5120, "x" * 5120), (5121, "m")])
def test_message_of_an_expression_is_limited(size: int, expected: str) -> None:
    found = evaluation(validations=[{"expression": "false", "messageExpression": "object.text", "message": "m"}])
    found._data["object"] = {"text": "x" * size}

    assert [failure.message for failure in found.failures()] == [expected]
