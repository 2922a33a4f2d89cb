"""Tests for the validation of leases."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.leases import validate_lease


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, []),
        ({}, []),
        ({"leaseDurationSeconds": 1, "leaseTransitions": 0}, []),
        ({"leaseDurationSeconds": 0}, ["leaseDurationSeconds"]),
        ({"leaseTransitions": -1}, ["leaseTransitions"]),
        ({"strategy": "OldestEmulationVersion", "preferredHolder": "a"}, []),
        ({"strategy": "Other"}, ["strategy.strategy"]),
        ({"strategy": ""}, ["strategy.strategy"]),
        ({"strategy": "example.com/Own"}, []),
        ({"strategy": "example.com/a b"}, ["strategy.strategy"]),
        ({"preferredHolder": "a"}, ["preferredHolder"]),
        ({"preferredHolder": ""}, []),
    ],
)
def test_lease_is_validated(spec: Any, expected: list[str]) -> None:
    assert [cause.field for cause in validate_lease({"spec": spec})] == [f"spec.{name}" for name in expected]
