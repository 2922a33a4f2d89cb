"""Tests for the validation of policies for requests of capacities of devices."""

from __future__ import annotations

from typing import Any

from apiserver_stub.validation.device_capacities import validate_capacity

POLICY = "c.requestPolicy"


def test_policies_of_shared_capacities() -> None:
    values, limits = f"{POLICY}.validValues", f"{POLICY}.validRange"
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, []),
        ({"default": "1", "validValues": ["1"]}, []),
        ({"default": "1", "validValues": ["1", "2"]}, []),
        ({"default": "2", "validValues": ["1", "2"]}, []),
        ({"default": "3", "validValues": ["1", "2"]}, [f"Invalid {values}"]),
        ({"default": "1", "validValues": ["1", "1"]}, [f"Duplicate {values}[1]"]),
        ({"default": "1", "validValues": ["2", "1"]}, [f"Invalid {values}[1]"]),
        ({"default": "1", "validValues": ["1", "10"]}, []),
        ({"default": "1", "validValues": ["1", "11"]}, [f"Invalid {values}[1]"]),
        ({"default": "1", "validValues": [str(number) for number in range(1, 11)]}, []),
        ({"default": "1", "validValues": [f"{number}m" for number in range(1000, 2100, 100)]}, [f"TooMany {values}"]),
        ({"validValues": ["1"]}, [f"Required {POLICY}.default"]),
        ({"default": "1", "validValues": ["1"], "validRange": {"min": "1"}}, [f"Forbidden {POLICY}"]),
        ({"validRange": {"min": "1"}}, [f"Required {POLICY}.default"]),
        ({"default": "1", "validRange": {}}, [f"Required {limits}.min"]),
        ({"default": "1", "validRange": {"min": "1", "max": "10"}}, []),
        ({"default": "10", "validRange": {"min": "10", "max": "10"}}, []),
    ]

    for policy, expected in cases:
        found = validate_capacity({"value": "10", "requestPolicy": policy}, "c", shared=True)
        assert [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in found] == expected, policy


def test_capacities_that_are_not_shared_have_no_policy() -> None:
    assert validate_capacity({"value": "10"}, "c", shared=False) == []
    (cause,) = validate_capacity({"value": "10", "requestPolicy": {}}, "c", shared=False)
    assert cause.field == POLICY
