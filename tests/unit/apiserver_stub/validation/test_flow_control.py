"""Tests for the validation of flow schemas and priority levels."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apiserver_stub.defaulting.flow_control_objects import (
    mandatory_levels,
    mandatory_schemas,
    suggested_levels,
    suggested_schemas,
)
from apiserver_stub.validation.flow_schemas import validate_flow_schema
from apiserver_stub.validation.priority_levels import validate_priority_level
from nodeagent.base.identity import Identity

RESOURCES = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["web"]}
PATHS = {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}
USER = {"kind": "User", "user": {"name": "alice"}}
QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def schema_errors(edit: dict[str, Any], name: str = "a") -> list[tuple[str, str]]:
    spec = {
        "priorityLevelConfiguration": {"name": "level"},
        "matchingPrecedence": 1000,
        "rules": [{"subjects": [USER], "resourceRules": [RESOURCES], "nonResourceRules": [PATHS]}],
        **edit,
    }
    return [(item.field, item.message) for item in validate_flow_schema({"metadata": {"name": name}, "spec": spec})]


def rule_errors(**edit: Any) -> list[tuple[str, str]]:
    rule = {"subjects": [USER], "resourceRules": [RESOURCES], **edit}
    return [(field.removeprefix("spec.rules[0]."), text) for field, text in schema_errors({"rules": [rule]})]


def level_errors(spec: dict[str, Any], name: str = "a", *, zero: bool = False) -> list[tuple[str, str]]:
    level = {"metadata": {"name": name}, "spec": spec}
    return [(item.field, item.message) for item in validate_priority_level(level, may_have_zero_shares=zero)]


def limited(**edit: Any) -> dict[str, Any]:
    settings = {"nominalConcurrencyShares": 30, "limitResponse": {"type": "Queue", "queuing": QUEUING}, **edit}
    return {"type": "Limited", "limited": settings}


def test_default_objects_are_valid() -> None:
    for name, spec in (mandatory_schemas() | suggested_schemas(Identity())).items():
        assert validate_flow_schema({"metadata": {"name": name}, "spec": spec}) == []
    for name, spec in (mandatory_levels() | suggested_levels()).items():
        assert level_errors(spec, name) == []


@pytest.mark.parametrize(
    ("edit", "field", "text"),
    [
        ({"matchingPrecedence": 0}, "spec.matchingPrecedence", "Invalid value: 0: must be a positive value"),
        ({"matchingPrecedence": 10_001}, "spec.matchingPrecedence", "must not be greater than 10000"),
        ({"matchingPrecedence": 1}, "spec.matchingPrecedence", "only the schema named 'exempt' may have"),
        ({"distinguisherMethod": {"type": "ByPhase"}}, "spec.distinguisherMethod.type", '"ByNamespace", "ByUser"'),
        ({"priorityLevelConfiguration": {}}, "spec.priorityLevelConfiguration.name", "must reference a priority level"),
        ({"priorityLevelConfiguration": {"name": "A"}}, "spec.priorityLevelConfiguration.name", "RFC 1123"),
        ({"rules": [{"subjects": [USER]}]}, "spec.rules[0]", "at least one of resourceRules and nonResourceRules"),
        ({"rules": [{"resourceRules": [RESOURCES]}]}, "spec.rules[0].subjects", "must contain at least one value"),
    ],
)
def test_invalid_flow_schema_is_rejected(edit: dict[str, Any], field: str, text: str) -> None:
    ((where, message),) = schema_errors(edit)

    assert where == field and text in message


@pytest.mark.parametrize(
    ("edit", "name"),
    [
        ({"matchingPrecedence": 2}, "a"),
        ({"matchingPrecedence": 10_000}, "a"),
        ({"distinguisherMethod": {"type": "ByNamespace"}}, "a"),
        ({"rules": []}, "a"),
        ({"rules": [{"subjects": [USER], "nonResourceRules": [PATHS]}]}, "a"),
        ({"rules": [{"subjects": [USER], "resourceRules": [{**RESOURCES, "namespaces": ["*"], "verbs": ["*"]}]}]}, "a"),
        (
            {"rules": [{"subjects": [USER], "resourceRules": [{**RESOURCES, "namespaces": [], "clusterScope": True}]}]},
            "a",
        ),
        (mandatory_schemas()["exempt"], "exempt"),
    ],
)  # fmt: skip
def test_limits_of_a_flow_schema_are_valid(edit: dict[str, Any], name: str) -> None:
    assert schema_errors(edit, name) == []


def test_fixed_schema_cannot_be_changed() -> None:
    ((field, message),) = schema_errors({**mandatory_schemas()["exempt"], "rules": []}, "exempt")

    assert field == "spec"
    assert message.endswith("spec of 'exempt' must equal the fixed value")


@pytest.mark.parametrize("name", ["*", "robot"])
def test_service_account_has_a_name_and_a_namespace(name: str) -> None:
    assert rule_errors(subjects=[{"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": "a"}}]) == []
    wrong = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "A"}, "user": {"name": "u"}}
    assert [field for field, _ in rule_errors(subjects=[{**wrong, "group": {"name": "g"}}])] == [
        "subjects[0].serviceAccount.name",
        "subjects[0].serviceAccount.namespace",
        "subjects[0].user",
        "subjects[0].group",
    ]


def test_types_of_conditions_are_distinct() -> None:
    status = {"conditions": [{"type": "A"}, {"type": "A"}, {"type": "B"}, {}]}
    schema = {"metadata": {"name": "exempt"}, "spec": mandatory_schemas()["exempt"], "status": status}

    found = [(cause.field, cause.message) for cause in validate_flow_schema(schema)]

    assert found == [
        ("status.conditions[1].type", 'Duplicate value: "A"'),
        ("status.conditions[3].type", "Required value: must not be empty"),
    ]


@pytest.mark.parametrize(
    ("subject", "field", "text"),
    [
        ({"kind": "Team"}, "kind", 'supported values: "Group", "ServiceAccount", "User"'),
        ({"kind": "User"}, "user", "user is required when subject kind is 'User'"),
        ({"kind": "User", "user": {}}, "user.name", "Required value"),
        ({**USER, "group": {"name": "g"}}, "group", "group is forbidden when subject kind is not 'Group'"),
        ({"kind": "ServiceAccount", "serviceAccount": {"name": "*"}}, "serviceAccount.namespace", "must specify"),
        (
            {"kind": "ServiceAccount", "serviceAccount": {"name": "A_", "namespace": "web"}},
            "serviceAccount.name",
            "RFC 1123",
        ),
    ],
)
def test_invalid_subject_is_rejected(subject: dict[str, Any], field: str, text: str) -> None:
    ((where, message),) = rule_errors(subjects=[subject])

    assert where == f"subjects[0].{field}" and text in message


@pytest.mark.parametrize(
    ("edit", "field", "text"),
    [
        ({"verbs": []}, "verbs", "must contain at least one value"),
        ({"verbs": ["*", "get"]}, "verbs", "if '*' is present, must not specify other verbs"),
        ({"verbs": ["head"]}, "verbs", "Unsupported value"),
        ({"apiGroups": []}, "apiGroups", "must supply at least one api group"),
        ({"apiGroups": ["*", ""]}, "apiGroups", "must not specify other api groups"),
        ({"resources": []}, "resources", "must supply at least one resource"),
        ({"namespaces": []}, "namespaces", "not cluster scoped must supply at least one namespace"),
        ({"namespaces": ["*", "web"]}, "namespaces", "must not specify other namespaces"),
        ({"namespaces": ["Web"]}, "namespaces[0]", "each member of this list must be '*' or a DNS-1123 label"),
    ],
)
def test_invalid_resource_rule_is_rejected(edit: dict[str, Any], field: str, text: str) -> None:
    ((where, message),) = rule_errors(resourceRules=[{**RESOURCES, **edit}])

    assert where == f"resourceRules[0].{field}" and text in message


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "must not be empty"),
        ("healthz", "must start with slash"),
        ("/a b", "must not contain white-space"),
        ("/a//b", "must not contain double slash"),
        ("/a*", "wildcard can only do suffix matching"),
        ("/*/a", "wildcard can only do suffix matching"),
    ],
)
def test_invalid_path_is_rejected(url: str, text: str) -> None:
    ((where, message),) = rule_errors(nonResourceRules=[{**PATHS, "nonResourceURLs": [url]}])

    assert where == "nonResourceRules[0].nonResourceURLs[0]" and message.endswith(text)


def test_mandatory_flow_schema_cannot_be_changed() -> None:
    spec = copy.deepcopy(mandatory_schemas()["catch-all"])
    spec["matchingPrecedence"] = 9000

    ((field, message),) = schema_errors(spec, "catch-all")

    assert field == "spec" and message.endswith("spec of 'catch-all' must equal the fixed value")


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"type": "Unlimited"}, "spec.type", 'supported values: "Exempt", "Limited"'),
        ({"type": "Exempt"}, "spec.type", "type must be 'Exempt' if and only if name is 'exempt'"),
        ({"type": "Limited"}, "spec.limited", "must not be empty when type is Limited"),
        ({**limited(), "exempt": {}}, "spec.exempt", "must be nil if the type is Limited"),
        (limited(nominalConcurrencyShares=0), "spec.limited.nominalConcurrencyShares", "must be positive"),
        (limited(lendablePercent=101), "spec.limited.lendablePercent", "must be between 0 and 100, inclusive"),
        (limited(borrowingLimitPercent=-1), "spec.limited.borrowingLimitPercent", "must be a non-negative integer"),
        (limited(limitResponse={"type": "Wait"}), "spec.limited.limitResponse.type", '"Queue", "Reject"'),
        (limited(limitResponse={"type": "Queue"}), "spec.limited.limitResponse.queuing", "must not be empty"),
        (
            limited(limitResponse={"type": "Reject", "queuing": QUEUING}),
            "spec.limited.limitResponse.queuing",
            "must be nil",
        ),
    ],
)
def test_invalid_priority_level_is_rejected(spec: dict[str, Any], field: str, text: str) -> None:
    ((where, message),) = level_errors(spec)

    assert where == field and text in message


@pytest.mark.parametrize(
    ("edit", "field", "text"),
    [
        ({"queueLengthLimit": 0}, "queueLengthLimit", "must be positive"),
        ({"queues": 10_000_001, "handSize": 1}, "queues", "must not be greater than 10000000"),
        ({"handSize": 0}, "handSize", "must be positive"),
        ({"handSize": 65}, "handSize", "should not be greater than queues (64)"),
        ({"handSize": 11}, "handSize", "required entropy bits of deckSize 64 and handSize 11"),
    ],
)
def test_invalid_queues_are_rejected(edit: dict[str, Any], field: str, text: str) -> None:
    ((where, message),) = level_errors(limited(limitResponse={"type": "Queue", "queuing": {**QUEUING, **edit}}))

    assert where == f"spec.limited.limitResponse.queuing.{field}" and text in message


def test_level_may_have_zero_shares_if_the_feature_is_enabled() -> None:
    assert level_errors(limited(nominalConcurrencyShares=0), zero=True) == []
    ((_, message),) = level_errors(limited(nominalConcurrencyShares=-1), zero=True)
    assert message.endswith("must be a non-negative integer")


def test_only_the_seats_of_the_exempt_level_can_be_changed() -> None:
    changed = {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 9, "lendablePercent": 10}}

    assert level_errors(changed, "exempt") == []
    ((field, _),) = level_errors(limited(), "catch-all")
    assert field == "spec"
