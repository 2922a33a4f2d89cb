"""Tests for the validation of priority classes."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.priority_classes import (
    validate_preemption_policy,
    validate_priority_class,
    validate_priority_class_update,
)


@pytest.mark.parametrize(
    ("name", "value", "more", "fields"),
    [
        ("a", 1_000_000_000, {}, []),
        ("a", 1_000_000_001, {}, ["value"]),
        ("a", 1, {"preemptionPolicy": "Never", "globalDefault": True}, []),
        ("a", 1, {"preemptionPolicy": "Always"}, ["preemptionPolicy"]),
        ("a", 1, {"preemptionPolicy": ""}, ["preemptionPolicy"]),
        ("system-node-critical", 2_000_001_000, {}, []),
        ("system-node-critical", 2_000_001_000, {"globalDefault": False}, []),
        ("system-node-critical", 2_000_001_000, {"globalDefault": True}, ["metadata.name"]),
        ("system-node-critical", 2_000_000_000, {}, ["metadata.name"]),
        ("system-other", 1, {}, ["metadata.name"]),
    ],
)
def test_new_class_is_validated(name: str, value: int, more: dict[str, Any], fields: list[str]) -> None:
    causes = validate_priority_class({"metadata": {"name": name}, "value": value, **more})

    assert [cause.field for cause in causes] == fields


@pytest.mark.parametrize(
    ("new", "old", "fields"),
    [
        ({"value": 0}, {}, []),
        ({"value": 1}, {"value": 1}, []),
        ({"value": 1}, {"value": 2}, ["value"]),
        ({"value": 1}, {}, ["value"]),
        ({"value": 0, "preemptionPolicy": "Never"}, {"preemptionPolicy": "Never"}, []),
        ({"value": 0, "preemptionPolicy": "Never"}, {}, ["preemptionPolicy"]),
    ],
)
def test_value_and_policy_are_immutable(new: dict[str, Any], old: dict[str, Any], fields: list[str]) -> None:
    assert [cause.field for cause in validate_priority_class_update(new, old)] == fields


@pytest.mark.parametrize(
    ("policy", "reason"), [("PreemptLowerPriority", ""), ("x", "FieldValueNotSupported"), ("", "FieldValueRequired")]
)
def test_preemption_policy_is_validated(policy: str, reason: str) -> None:
    assert [cause.reason for cause in validate_preemption_policy(policy, "f")] == ([reason] if reason else [])
