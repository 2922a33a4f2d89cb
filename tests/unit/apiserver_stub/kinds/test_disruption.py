"""Tests for disruption budgets: validation, selectors, conditions and columns."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.disruption import covers, resources, set_condition
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings

(RESOURCE,) = resources(kind_settings(parse([])))
RULES = RESOURCE.strategy


def budget(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b", "generation": 1}, "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec}}


@pytest.mark.parametrize("value", [0, 3, "0%", "100%"])
@pytest.mark.parametrize("name", ["minAvailable", "maxUnavailable"])
def test_limits_are_numbers_or_percentages(name: str, value: Any) -> None:
    assert RULES.validate(budget(**{name: value})) == []


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, "spec", "minAvailable and maxUnavailable cannot be both set"),
        ({"minAvailable": -1}, "spec.minAvailable", "Invalid value: -1: must be greater than or equal to 0"),
        (
            {"maxUnavailable": "101%"},
            "spec.maxUnavailable",
            'Invalid value: intstr.IntOrString{Type:1, IntVal:0, StrVal:"101%"}: must not be greater than 100%',
        ),
        ({"maxUnavailable": "some"}, "spec.maxUnavailable", "a valid percent string must be a numeric string"),
        (
            {"unhealthyPodEvictionPolicy": "Never"},
            "spec.unhealthyPodEvictionPolicy",
            'Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget"',
        ),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.selector.matchExpressions[0].values",
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        ({"selector": {"matchLabels": {"a": "-"}}}, "spec.selector.matchLabels", "a valid label must be"),
    ],
)
def test_invalid_budget_is_rejected(spec: dict[str, Any], field: str, text: str) -> None:
    (cause,) = RULES.validate(budget(**spec))
    assert cause.field == field
    assert text in cause.message


def test_new_budget_allows_no_disruption() -> None:
    new = budget(minAvailable=1)
    RULES.prepare_create(new)
    assert new["status"] == {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}


def test_status_counts_must_not_be_negative() -> None:
    new = {**budget(), "status": {"currentHealthy": -1}}
    (cause,) = RULES.validate_update(new, budget(), "status")
    assert cause.field == "status.currentHealthy"


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "b"}}, False),
        ({"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]}, True),
    ],
)
def test_missing_selector_selects_no_pods(selector: Any, expected: bool) -> None:
    pod = {"metadata": {"name": "p", "labels": {"app": "a"}}}
    assert covers({"spec": {"selector": selector}}, pod) is expected


def test_transition_time_is_kept_while_status_is_unchanged() -> None:
    status: dict[str, Any] = {"disruptionsAllowed": 1, "observedGeneration": 3}
    set_condition(status)
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "SufficientPods")
    assert condition["observedGeneration"] == 3

    condition["lastTransitionTime"] = "2020-01-02T15:04:05Z"
    set_condition(status)
    assert status["conditions"] == [condition]

    status["disruptionsAllowed"] = 0
    set_condition(status)
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")
    assert condition["lastTransitionTime"] != "2020-01-02T15:04:05Z"


def test_columns() -> None:
    shown = {column.name: column.cell({**budget(minAvailable="50%"), "status": {}}) for column in RESOURCE.columns[:4]}
    assert shown == {"Name": "b", "Min Available": "50%", "Max Unavailable": "N/A", "Allowed Disruptions": 0}
