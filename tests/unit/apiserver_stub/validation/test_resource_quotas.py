"""Tests for the validation of resource quotas."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.resource_quotas import validate_quota, validate_quota_status, validate_quota_update

MATCH = "spec.scopeSelector.matchExpressions"


def fields(spec: Any) -> list[str]:
    return [cause.field for cause in validate_quota({"spec": spec}, "kubernetes.io")]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, []),
        ({}, []),
        ({"hard": {"pods": "1", "requests.cpu": "500m", "count/secrets": "2"}}, []),
        ({"hard": {"pods": "-1"}}, ["spec.hard[pods]"]),
        ({"hard": {"a b": "1"}}, ["spec.hard[a b]"] * 2),
        ({"scopes": ["BestEffort"], "hard": {"pods": "1"}}, []),
        ({"scopes": ["BestEffort"], "hard": {"cpu": "1"}}, ["spec.scopes"]),
        ({"scopes": ["NotBestEffort"], "hard": {"cpu": "1", "pods": "1"}}, []),
        ({"scopes": ["NotBestEffort"], "hard": {"services": "1"}}, ["spec.scopes"]),
        ({"scopes": ["Other"], "hard": {"services": "1"}}, ["spec.scopes"]),
        ({"scopes": ["Terminating", "NotTerminating"]}, ["spec.scopes"]),
        ({"scopes": ["BestEffort", "NotBestEffort"]}, ["spec.scopes"]),
        ({"scopes": ["Terminating", "NotBestEffort"]}, []),
    ],
)
def test_amounts_and_scopes_are_validated(spec: Any, expected: list[str]) -> None:
    assert fields(spec) == expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (None, []),
        ([{"scopeName": "BestEffort", "operator": "Exists"}], []),
        ([{"scopeName": "BestEffort", "operator": "DoesNotExist"}], [f"{MATCH}.operator"]),
        ([{"scopeName": "BestEffort", "operator": "In", "values": ["a"]}], [f"{MATCH}.operator"]),
        ([{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}], []),
        ([{"scopeName": "PriorityClass", "operator": "DoesNotExist"}], []),
        ([{"scopeName": "PriorityClass", "operator": "In"}], [f"{MATCH}.values"]),
        ([{"scopeName": "PriorityClass", "operator": "NotIn", "values": []}], [f"{MATCH}.values"]),
        ([{"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}], [f"{MATCH}.values"]),
        ([{"scopeName": "PriorityClass", "operator": "Is"}], [f"{MATCH}.operator"]),
        ([{"scopeName": "Other", "operator": "Exists"}], [f"{MATCH}.scopeName"]),
        ([{}], [f"{MATCH}.scopeName", f"{MATCH}.operator"]),
        (
            [{"scopeName": name, "operator": "Exists"} for name in ("Terminating", "NotTerminating")],
            [MATCH],
        ),
    ],
)
def test_scope_selector_is_validated(terms: Any, expected: list[str]) -> None:
    assert fields({"scopeSelector": {"matchExpressions": terms}}) == expected


@pytest.mark.parametrize(("name", "valid"), [("pods", True), ("cpu", False)])
def test_resources_are_of_the_selected_scope(name: str, valid: bool) -> None:
    term = {"scopeName": "BestEffort", "operator": "Exists"}

    assert fields({"hard": {name: "1"}, "scopeSelector": {"matchExpressions": [term]}}) == ([] if valid else [MATCH])


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (None, None, []),
        (["a", "b"], ["b", "a"], []),
        (["a"], None, ['Invalid value: []core.ResourceQuotaScope{"a"}: field is immutable']),
        (None, ["a"], ["Invalid value: []core.ResourceQuotaScope(nil): field is immutable"]),
    ],
)
def test_scopes_are_immutable(new: Any, old: Any, expected: list[str]) -> None:
    quotas = ({"spec": {"scopes": each}} if each else {} for each in (new, old))

    assert [cause.message for cause in validate_quota_update(*quotas)] == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, []),
        ({"hard": {"pods": "1"}, "used": {"pods": "0"}}, []),
        ({"hard": {"pods": "-2"}, "used": {"pods": "-1"}}, ["status.hard[pods]", "status.used[pods]"]),
    ],
)
def test_amounts_of_the_status_are_validated(status: Any, expected: list[str]) -> None:
    assert [cause.field for cause in validate_quota_status({"status": status}, "kubernetes.io")] == expected
