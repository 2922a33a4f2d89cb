"""Tests for the validation of mutating admission policies and their bindings."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.mutating_policies import validate_mutating_binding, validate_mutating_policy

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
LABELS = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"
PARAMS = {"apiVersion": "v1", "kind": "ConfigMap"}


def apply(expression: str | None) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


SPEC: dict[str, Any] = {
    "matchConstraints": {"resourceRules": [RULE]},
    "mutations": [apply(LABELS), patch("[JSONPatch{op: 'remove', path: '/data/a'}]")],
    "reinvocationPolicy": "Never",
}


def found(change: dict[str, Any], old: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    before = None if old is None else {"spec": {**SPEC, **old}}
    causes = validate_mutating_policy({"spec": {**SPEC, **change}}, before)
    return [(cause.reason.removeprefix("FieldValue"), cause.field.removeprefix("spec.")) for cause in causes]


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({}, []),
        ({"failurePolicy": "Ignore", "reinvocationPolicy": "IfNeeded"}, []),
        ({"failurePolicy": "Maybe"}, [("NotSupported", "failurePolicy")]),
        ({"paramKind": PARAMS}, []),
        ({"paramKind": {"apiVersion": "v1"}}, [("Required", "paramKind.kind")]),
        ({"matchConstraints": None}, [("Required", "matchConstraints")]),
        ({"matchConstraints": {}}, [("Required", "matchConstraints.resourceRules")]),
        (
            {"matchConstraints": {"resourceRules": [{**RULE, "operations": ["CREATE", "X"]}]}},
            [
                ("NotSupported", "matchConstraints.resourceRules[0].operations[1]"),
                ("NotSupported", "matchConstraints.resourceRules.operations"),
            ],
        ),
        ({"reinvocationPolicy": None}, [("Required", "reinvocationPolicy")]),
        ({"reinvocationPolicy": "Always"}, [("NotSupported", "reinvocationPolicy")]),
        ({"mutations": []}, [("Required", "mutations")]),
        ({"variables": [{"name": "a", "expression": "1 + 1"}]}, []),
        ({"variables": [{"name": "a", "expression": "1 +"}]}, [("Invalid", "variables[0].expression")]),
    ],
)
def test_errors_of_a_policy(change: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert found(change) == errors


@pytest.mark.parametrize(
    ("mutation", "errors"),
    [
        ({}, [("Required", "patchType")]),
        ({"patchType": "Merge"}, [("NotSupported", "patchType")]),
        ({"patchType": "JSONPatch"}, [("Required", "jsonPatch")]),
        ({**apply(LABELS), **patch("[]"), "patchType": "JSONPatch"}, [("Invalid", "applyConfiguration")]),
        (apply(None), [("Required", "applyConfiguration.expression")]),
        (apply(" "), [("Required", "applyConfiguration.expression")]),
        (apply("Object{"), [("Invalid", "applyConfiguration.expression")]),
        (apply("Object{data: {'a': unknown}}"), [("Invalid", "applyConfiguration.expression")]),
        (patch(LABELS), [("Invalid", "jsonPatch.expression")]),
    ],
)
def test_errors_of_a_mutation(mutation: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert found({"mutations": [mutation]}) == [(reason, f"mutations[0].{field}") for reason, field in errors]


@pytest.mark.parametrize(
    ("name", "declaration"),
    [("params", {"paramKind": PARAMS}), ("variables", {"variables": [{"name": "a", "expression": "'x'"}]})],
)
def test_mutation_uses_only_declared_variables(name: str, declaration: dict[str, Any]) -> None:
    mutations = {"mutations": [apply(f"Object{{data: {{'a': {name}.a}}}}")]}

    assert found({**mutations, **declaration}) == []
    assert found(mutations) == [("Invalid", "mutations[0].applyConfiguration.expression")]


@pytest.mark.parametrize(
    ("old", "errors"),
    [
        ({"matchConditions": [{"name": "a", "expression": "stored("}]}, []),
        ({"matchConditions": []}, [("Invalid", "matchConditions[0].expression")]),
        (
            {"matchConditions": [{"name": "a", "expression": "stored("}], "paramKind": PARAMS},
            [("Invalid", "matchConditions[0].expression")],
        ),
    ],
)
def test_stored_conditions_are_checked_again_after_a_change(old: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert found({"matchConditions": [{"name": "a", "expression": "stored("}]}, old) == errors


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"policyName": "p"}, []),
        ({}, [("Required", "policyName")]),
        ({"policyName": "A_"}, [("Invalid", "policyName")]),
        (
            {"policyName": "p", "paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}},
            [("Forbidden", "paramRef.name"), ("Forbidden", "paramRef.selector")],
        ),
        ({"policyName": "p", "paramRef": {"name": "a"}}, [("Required", "paramRef.parameterNotFoundAction")]),
        (
            {"policyName": "p", "matchResources": {"matchPolicy": "Some"}},
            [("NotSupported", "matchResources.matchPolicy")],
        ),
    ],
)
def test_errors_of_a_binding(spec: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    causes = validate_mutating_binding(spec)

    assert [(cause.reason.removeprefix("FieldValue"), cause.field.removeprefix("spec.")) for cause in causes] == errors


@pytest.mark.parametrize(("operation", "count"), [("CREATE", 0), ("*", 0), ("DELETE", 1)])
def test_deletions_cannot_be_mutated(operation: str, count: int) -> None:
    rule: dict[str, Any] = {"operations": [operation], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    spec = {"policyName": "p", "matchResources": {"resourceRules": [rule]}}

    causes = validate_mutating_binding(spec)

    assert [cause.field for cause in causes] == ["spec.matchResources.resourceRules.operations"] * count
