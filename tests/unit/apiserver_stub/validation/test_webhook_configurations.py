"""Validation of webhook configurations."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.webhook_configurations import validate_webhooks

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "scope": "*"}
HOOK: dict[str, Any] = {
    "name": "hook.example.com",
    "clientConfig": {"service": {"name": "hook", "namespace": "default", "path": "/a/b", "port": 443}},
    "rules": [RULE],
    "failurePolicy": "Fail",
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "timeoutSeconds": 10,
}


def found(*hooks: dict[str, Any], old: list[Any] | None = None, mutating: bool = False) -> list[tuple[str, str]]:
    before = None if old is None else {"webhooks": old}
    causes = validate_webhooks({"webhooks": list(hooks)}, before, mutating=mutating)
    return [(cause.reason.removeprefix("FieldValue"), cause.field) for cause in causes]


def client(**config: Any) -> dict[str, Any]:
    return {"clientConfig": config}


def service(**changes: Any) -> dict[str, Any]:
    return client(service={**HOOK["clientConfig"]["service"], **changes})


def rule(**changes: Any) -> dict[str, Any]:
    return {"rules": [{**RULE, **changes}]}


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({}, []),
        ({"name": "a.b"}, [("Invalid", "name")]),
        ({"name": "A.b."}, [("Invalid", "name")]),
        ({"name": ""}, [("Required", "name")]),
        ({"timeoutSeconds": 31}, [("Invalid", "timeoutSeconds")]),
        ({"sideEffects": None}, [("Required", "sideEffects")]),
        ({"sideEffects": "Some"}, [("NotSupported", "sideEffects")]),
        ({"reinvocationPolicy": "Maybe"}, [("NotSupported", "reinvocationPolicy")]),
        ({"objectSelector": {"matchLabels": {"a b": "c"}}}, [("Invalid", "objectSelector.matchLabels")]),
        ({"admissionReviewVersions": []}, [("Required", "admissionReviewVersions")]),
        (
            {"admissionReviewVersions": ["v2", "v2"]},
            [("Invalid", "admissionReviewVersions[1]"), ("Invalid", "admissionReviewVersions")],
        ),
        ({"admissionReviewVersions": ["v1", "1"]}, [("Invalid", "admissionReviewVersions[1]")]),
        (client(), [("Required", "clientConfig")]),
        (client(url="https://a.b/c"), []),
        (client(url="http://u@/?a#b"), [("Invalid", "clientConfig.url")] * 5),
        (client(url="a:b:c@ :"), [("Invalid", "clientConfig.url")] * 2),
        (client(url="10.0.0.1:80"), [("Required", "clientConfig.url")]),
        (service(name=""), [("Required", "clientConfig.service.namespace")]),
        (service(port=0), [("Invalid", "clientConfig.service.port")]),
        (service(path="/"), []),
        (service(path="//"), [("Invalid", "clientConfig.service.path")]),
        (service(path="a//B"), [("Invalid", "clientConfig.service.path")] * 4),
        (rule(operations=[]), [("Required", "rules[0].operations")]),
        (
            rule(operations=["*", "GET"]),
            [("Invalid", "rules[0].operations"), ("NotSupported", "rules[0].operations[1]")],
        ),
        (rule(apiVersions=["", "*"]), [("Invalid", "rules[0].apiVersions"), ("Required", "rules[0].apiVersions[0]")]),
        (rule(resources=["pods/*", "pods/status"]), [("Invalid", "rules[0].resources[1]")]),
        (rule(resources=["*/*", "pods"]), [("Invalid", "rules[0].resources")]),
        (rule(resources=["*", "pods"]), [("Invalid", "rules[0].resources")]),
        (rule(resources=["pods", "*"]), []),
        (rule(scope="None"), [("NotSupported", "rules[0].scope")]),
        (
            {"matchConditions": [{"name": "a", "expression": "object.x"}]},
            [("Invalid", "matchConditions[0].expression")],
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": " "}]},
            [("Required", "matchConditions[1].expression"), ("Duplicate", "matchConditions[1].name")],
        ),
    ],
)
def test_errors_of_a_webhook_are_those_of_upstream(change: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert found({**HOOK, **change}, mutating=True) == [(reason, f"webhooks[0].{field}") for reason, field in errors]


@pytest.mark.parametrize(("count", "errors"), [(64, []), (65, [("TooMany", "webhooks[0].matchConditions")])])
def test_number_of_match_conditions_is_limited(count: int, errors: list[tuple[str, str]]) -> None:
    conditions = [{"name": f"c{number}", "expression": "true"} for number in range(count)]

    assert found({**HOOK, "matchConditions": conditions}) == errors


def test_webhook_names_must_be_unique() -> None:
    assert found(HOOK, HOOK) == [("Duplicate", "webhooks[1].name")]


def test_update_keeps_values_that_earlier_releases_accepted() -> None:
    conditions = [{"name": "a", "expression": "broken("}]
    old = {**HOOK, "sideEffects": "Some", "admissionReviewVersions": ["v3"], "matchConditions": conditions}

    assert found(old, old, old=[old, old]) == []
    assert found({**HOOK, "matchConditions": conditions}, old=[HOOK]) == [
        ("Invalid", "webhooks[0].matchConditions[0].expression")
    ]
