"""Tests for the evaluation of ValidatingAdmissionPolicies; the expected results are those of kube-apiserver 1.29."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.policy_evaluation import Evaluation, Failure, Policy
from apiserver_stub.cel import CelError

OBJECT = {"metadata": {"name": "x"}, "data": {"a": "1", "b": "2"}}


def evaluation(**spec: Any) -> Evaluation:
    data = {"object": OBJECT, "oldObject": None, "request": {}, "params": None, "namespaceObject": None}
    return Evaluation(Policy({"metadata": {"name": "p"}, "spec": spec}), data)


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
