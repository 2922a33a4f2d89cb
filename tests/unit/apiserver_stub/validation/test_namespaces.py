"""Tests for the validation of namespaces and leases."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.leases import validate_lease
from apiserver_stub.validation.namespaces import validate_finalizers, validate_namespace, validate_phase


def test_finalizers_are_qualified_or_standard() -> None:
    names = ["kubernetes", "example.com/a", "abc", "a b"]

    assert [cause.field for cause in validate_namespace({"spec": {"finalizers": names}})] == ["spec.finalizers"] * 3
    assert [cause.field for cause in validate_finalizers(names)] == [
        "spec.finalizers[2]",
        "spec.finalizers[3]",
        "spec.finalizers[3]",
    ]


@pytest.mark.parametrize(
    ("metadata", "phase", "is_valid"),
    [
        ({}, "Active", True),
        ({}, "Terminating", False),
        ({"deletionTimestamp": "2024-01-02T03:04:05Z"}, "Terminating", True),
        ({"deletionTimestamp": "2024-01-02T03:04:05Z"}, "Active", False),
    ],
)
def test_phase_follows_the_deletion(metadata: dict[str, Any], phase: str, is_valid: bool) -> None:
    causes = validate_phase({"metadata": metadata, "status": {"phase": phase}})

    assert [cause.field for cause in causes] == ["status.Phase"] * (not is_valid)


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({}, []),
        ({"leaseDurationSeconds": 1, "leaseTransitions": 0}, []),
        ({"leaseDurationSeconds": 0, "leaseTransitions": -1}, ["spec.leaseDurationSeconds", "spec.leaseTransitions"]),
    ],
)
def test_errors_of_lease_are_reported(spec: dict[str, Any], fields: list[str]) -> None:
    assert [cause.field for cause in validate_lease({"spec": spec})] == fields
