"""Validation of admission policies and their bindings."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.validation.validating_policies import validate_binding, validate_policy, validate_policy_status

RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
SPEC: dict[str, Any] = {
    "failurePolicy": "Fail",
    "matchConstraints": {"matchPolicy": "Exact", "resourceRules": [RULE]},
    "validations": [{"expression": "true"}],
}
BINDING: dict[str, Any] = {"policyName": "p", "validationActions": ["Deny"]}


def short(causes: list[Cause]) -> list[tuple[str, str]]:
    return [(cause.reason.removeprefix("FieldValue"), cause.field.removeprefix("spec.")) for cause in causes]


def policy(**changes: Any) -> dict[str, Any]:
    return {"metadata": {"name": "policy"}, "spec": {**SPEC, **changes}}


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({}, []),
        ({"failurePolicy": "None"}, [("NotSupported", "failurePolicy")]),
        ({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}, []),
        ({"paramKind": {}}, [("Required", "paramKind.apiVersion"), ("Required", "paramKind.kind")]),
        ({"paramKind": {"apiVersion": "a/b/c", "kind": "A"}}, [("Invalid", "paramKind.apiVersion")]),
        (
            {"paramKind": {"apiVersion": "A/1", "kind": "A B"}},
            [("Invalid", "paramKind.apiVersion")] * 2 + [("Invalid", "paramKind.kind")],
        ),
        ({"matchConstraints": None}, [("Required", "matchConstraints")]),
        ({"matchConstraints": {}}, [("Required", "matchConstraints.resourceRules")]),
        (
            {"matchConstraints": {"resourceRules": [{**RULE, "resourceNames": ["a", "a", "b/c"]}]}},
            [
                ("Duplicate", "matchConstraints.resourceRules[0].resourceNames[1]"),
                ("Invalid", "matchConstraints.resourceRules[0].resourceNames[2]"),
            ],
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "params.x"}]},
            [("Invalid", "matchConditions[0].expression")],
        ),
        (
            {"variables": [{"name": "in", "expression": ""}]},
            [("Invalid", "variables[0].name"), ("Required", "variables[0].expression")],
        ),
        (
            {"variables": [{"name": "a", "expression": "1"}], "validations": [{"expression": "variables.a == 'b'"}]},
            [("Invalid", "validations[0].expression")],
        ),
        ({"validations": []}, [("Required", "validations"), ("Required", "auditAnnotations")]),
        (
            {"validations": [{"expression": " ", "message": " ", "messageExpression": " ", "reason": "Unknown"}]},
            [
                ("Required", "validations[0].expression"),
                ("Invalid", "validations[0].messageExpression"),
                ("Invalid", "validations[0].message"),
                ("NotSupported", "validations[0].reason"),
            ],
        ),
        ({"validations": [{"expression": "true", "message": "a\nb"}]}, [("Invalid", "validations[0].message")]),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            [("Invalid", "validations[0].messageExpression")],
        ),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "'x'"}, {"key": "a", "valueExpression": ""}]},
            [("Required", "auditAnnotations[1].valueExpression"), ("Duplicate", "auditAnnotations[1].key")],
        ),
        (
            {"auditAnnotations": [{"key": "a b", "valueExpression": "1"}]},
            [("Invalid", "auditAnnotations[0].key"), ("Invalid", "auditAnnotations[0].valueExpression")],
        ),
    ],
)
def test_errors_of_a_policy_are_those_of_upstream(changes: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert short(validate_policy(policy(**changes))) == errors


def test_unchanged_match_conditions_are_not_compiled_again() -> None:
    old = policy(matchConditions=[{"name": "a", "expression": "broken("}])

    assert validate_policy(old, old) == []


@pytest.mark.parametrize(
    ("changes", "errors"),
    [
        ({}, []),
        ({"policyName": ""}, [("Required", "policyName")]),
        ({"policyName": "A"}, [("Invalid", "policyName")]),
        ({"paramRef": {"name": "a", "parameterNotFoundAction": "Deny"}}, []),
        ({"paramRef": {}}, [("Required", "paramRef"), ("Required", "paramRef.parameterNotFoundAction")]),
        (
            {"paramRef": {"name": "a/b", "selector": {}, "parameterNotFoundAction": "Warn"}},
            [
                ("Invalid", "paramRef.name"),
                ("Forbidden", "paramRef.name"),
                ("Forbidden", "paramRef.selector"),
                ("NotSupported", "paramRef.parameterNotFoundAction"),
            ],
        ),
        ({"matchResources": {"matchPolicy": "All"}}, [("NotSupported", "matchResouces.matchPolicy")]),
        ({"validationActions": []}, [("Required", "validationActions")]),
        ({"validationActions": ["Deny", "Deny"]}, [("Duplicate", "validationActions[1]")]),
        (
            {"validationActions": ["Deny", "Warn", "Log"]},
            [("NotSupported", "validationActions[2]"), ("Invalid", "validationActions")],
        ),
    ],
)
def test_errors_of_a_binding_are_those_of_upstream(changes: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert short(validate_binding({**BINDING, **changes})) == errors


def test_errors_of_a_policy_status_are_those_of_upstream() -> None:
    status = {
        "typeChecking": {"expressionWarnings": [{"fieldRef": "spec.x[0]", "warning": "w"}, {"fieldRef": "spec.["}]},
        "conditions": [{"type": "A B", "status": "Yes", "reason": "1", "observedGeneration": -1}],
    }

    assert short(validate_policy_status(status)) == [
        ("Required", "status.typeChecking.expressionWarnings[1].warning"),
        ("Invalid", "status.typeChecking.expressionWarnings[1].fieldRef"),
        ("Invalid", "status.conditions[0].type"),
        ("NotSupported", "status.conditions[0].status"),
        ("Invalid", "status.conditions[0].observedGeneration"),
        ("Required", "status.conditions[0].lastTransitionTime"),
        ("Invalid", "status.conditions[0].reason"),
    ]
