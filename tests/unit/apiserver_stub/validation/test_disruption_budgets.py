"""Tests for the validation of disruption budgets, priority classes and service accounts."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.defaulting.priority_classes import PRIORITY_CLASS
from apiserver_stub.kinds.service_accounts import ServiceAccountStrategy
from apiserver_stub.validation.disruption_budgets import validate_budget, validate_budget_status
from apiserver_stub.validation.priority_classes import validate_priority_class, validate_priority_class_update


def _fields(causes: list[Any]) -> list[str]:
    return [cause.field for cause in causes]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, []),
        ({"minAvailable": "100%"}, []),
        ({"minAvailable": "101%"}, ["spec.minAvailable"]),
        ({"maxUnavailable": "1"}, ["spec.maxUnavailable"]),
        ({"maxUnavailable": -1}, ["spec.maxUnavailable"]),
        ({"minAvailable": 0, "maxUnavailable": 0}, ["spec"]),
        ({"selector": {"matchLabels": {"a": "-"}}}, ["spec.selector.matchLabels"]),
        ({"unhealthyPodEvictionPolicy": ""}, ["spec.unhealthyPodEvictionPolicy"]),
    ],
)
def test_specification_of_a_budget_is_validated(spec: Any, fields: list[str]) -> None:
    assert _fields(validate_budget({"spec": spec})) == fields


def test_status_of_a_budget_is_validated() -> None:
    status = {"expectedPods": -1, "currentHealthy": 0, "conditions": [{"type": "a"}]}
    names = [f"conditions[0].{name}" for name in ("status", "lastTransitionTime", "reason")]
    assert _fields(validate_budget_status({"status": status})) == [
        f"status.{name}" for name in [*names, "expectedPods"]
    ]


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, []),
        ({"value": -1}, []),
        ({"value": 1_000_000_001}, ["value"]),
        ({"preemptionPolicy": "never"}, ["preemptionPolicy"]),
        ({"preemptionPolicy": ""}, ["preemptionPolicy"]),
        ({"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000}, []),
        ({"metadata": {"name": "system-node-critical"}}, ["metadata.name"]),
        ({"metadata": {"name": "system-x"}, "value": 1_000_000_001}, ["metadata.name"]),
    ],
)
def test_new_priority_class_is_validated(changes: Any, fields: list[str]) -> None:
    priority_class = {"metadata": {"name": "high"}, "value": 5, **changes}
    assert _fields(validate_priority_class(priority_class)) == fields


def test_value_and_policy_of_a_priority_class_stay() -> None:
    old: dict[str, Any] = {"metadata": {"name": "high"}}
    PRIORITY_CLASS.apply(old)
    new = {**old, "value": 1, "preemptionPolicy": "Never"}
    assert _fields(validate_priority_class_update(new, old)) == ["value", "preemptionPolicy"]


def test_secrets_of_a_service_account_are_names() -> None:
    account = {
        "metadata": {"name": "app"},
        "secrets": [{"name": "a", "namespace": "b", "uid": "c"}, {"kind": "Secret"}],
    }
    ServiceAccountStrategy().prepare_update(account, account, "")
    assert account["secrets"] == [{"name": "a"}, {}]
