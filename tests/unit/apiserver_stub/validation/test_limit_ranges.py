"""Tests for the validation and defaults of limit ranges and resource quotas."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.defaulting.limit_ranges import LIMIT_RANGE
from apiserver_stub.validation.limit_ranges import validate_limit_range
from apiserver_stub.validation.resource_quotas import validate_quota, validate_quota_status, validate_quota_update

_EXPRESSIONS = "spec.scopeSelector.matchExpressions"


def _fields(causes: list[Any]) -> list[str]:
    return [cause.field for cause in causes]


@pytest.mark.parametrize(
    ("item", "fields"),
    [
        ({"type": "Pod"}, []),
        ({"type": "example.com/own", "max": {"example.com/gpu": "1"}}, []),
        ({"type": "pod"}, ["type"]),
        ({"type": ""}, ["type", "type"]),
        ({"type": "Pod", "default": {"x": "1"}, "defaultRequest": {"x": "1"}}, ["default", "defaultRequest"]),
        ({"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}, ["limits"]),
        ({"type": "Container", "max": {"storage": "1"}}, ["max[storage]"]),
        ({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}, ["min[cpu]"]),
        ({"type": "Container", "min": {"cpu": "2"}, "default": {"cpu": "1"}}, ["default[cpu]"]),
        ({"type": "Container", "min": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}, ["defaultRequest[cpu]"]),
        ({"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "1"}}, ["default[cpu]"]),
        ({"type": "Container", "defaultRequest": {"cpu": "2"}, "max": {"cpu": "1"}}, ["defaultRequest[cpu]"]),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "900m"}}, ["maxLimitRequestRatio[cpu]"]),
        (
            {"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2100m"}},
            ["maxLimitRequestRatio[cpu]"],
        ),
        (
            {"type": "Container", "default": {"a.b/c": "2"}, "defaultRequest": {"a.b/c": "1"}},
            ["defaultRequest[a.b/c]"],
        ),
    ],
)
def test_limit_is_validated(item: Any, fields: list[str]) -> None:
    causes = validate_limit_range({"spec": {"limits": [item]}}, "kubernetes.io")
    assert _fields(causes) == [f"spec.limits[0].{field}" for field in fields]


def test_types_of_limits_differ() -> None:
    causes = validate_limit_range({"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}}, "kubernetes.io")
    assert [(cause.reason, cause.field) for cause in causes] == [("FieldValueDuplicate", "spec.limits[1].type")]


def test_container_amounts_default_to_the_bounds() -> None:
    item = {"type": "Container", "max": {"cpu": "4"}, "min": {"memory": "1Mi"}, "default": {"memory": "2Mi"}}
    pod = {"type": "Pod", "max": {"cpu": "4"}}
    LIMIT_RANGE.apply({"spec": {"limits": [item, pod]}})
    assert item["default"] == {"cpu": "4", "memory": "2Mi"}
    assert item["defaultRequest"] == {"cpu": "4", "memory": "2Mi"}
    assert pod == {"type": "Pod", "max": {"cpu": "4"}}


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"hard": {"pods": "1", "count/jobs.batch": "1", "requests.example.com/gpu": "1"}}, []),
        ({"hard": {"pods": "-1"}}, ["spec.hard[pods]"]),
        ({"hard": {"pods": "1500m"}}, ["spec.hard[pods]"]),
        ({"hard": {"storage": "1"}}, ["spec.hard[storage]"]),
        ({"hard": {"x": "1"}}, ["spec.hard[x]", "spec.hard[x]"]),
        ({"hard": {"cpu": "1"}, "scopes": ["Terminating"]}, []),
        ({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}, ["spec.scopes"]),
        ({"hard": {"services": "1"}, "scopes": ["Terminating"]}, ["spec.scopes"]),
        ({"scopes": ["x"]}, ["spec.scopes"]),
        ({"scopes": ["Terminating", "NotTerminating"]}, ["spec.scopes"]),
    ],
)
def test_amounts_and_scopes_of_a_quota_are_validated(spec: Any, fields: list[str]) -> None:
    assert _fields(validate_quota({"spec": spec}, "kubernetes.io")) == fields


@pytest.mark.parametrize(
    ("term", "fields"),
    [
        ({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}, []),
        ({"scopeName": "PriorityClass", "operator": "In"}, [".values"]),
        ({"scopeName": "PriorityClass", "operator": "Exists", "values": ["high"]}, [".values"]),
        ({"scopeName": "BestEffort", "operator": "In", "values": ["a"]}, [".operator"]),
        ({}, [".scopeName", ".operator"]),
    ],
)
def test_scope_selector_of_a_quota_is_validated(term: Any, fields: list[str]) -> None:
    causes = validate_quota({"spec": {"scopeSelector": {"matchExpressions": [term]}}}, "kubernetes.io")
    assert _fields(causes) == [f"{_EXPRESSIONS}{field}" for field in fields]


def test_selected_scopes_do_not_conflict() -> None:
    terms = [{"scopeName": name, "operator": "Exists"} for name in ("BestEffort", "NotBestEffort")]
    spec = {"hard": {"services": "1"}, "scopeSelector": {"matchExpressions": terms}}
    assert _fields(validate_quota({"spec": spec}, "kubernetes.io")) == [_EXPRESSIONS] * 3


def test_scopes_of_a_quota_are_an_immutable_set() -> None:
    old = {"spec": {"scopes": ["BestEffort", "Terminating"]}}
    assert validate_quota_update({"spec": {"scopes": ["Terminating", "BestEffort"]}}, old) == []
    assert _fields(validate_quota_update({"spec": {}}, old)) == ["spec.scopes"]


def test_status_of_a_quota_is_validated() -> None:
    causes = validate_quota_status({"status": {"hard": {"pods": "1"}, "used": {"pods": "-1"}}}, "kubernetes.io")
    assert _fields(causes) == ["status.used[pods]"]
