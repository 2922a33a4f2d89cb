"""Tests for the capacity that requests consume, by the request policy of the device."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.scheduling.device_capacity import consumed_capacity, suffices
from nodeagent.base.quantity import Quantity


def consumed(requested: str | None, **policy: Any) -> str | None:
    """Return the amount of a capacity of 8 that a request consumes, ``None`` if it is not permitted."""
    capacities = {"m": {"value": "8", **({"requestPolicy": policy} if policy else {})}}
    found = consumed_capacity({"m": requested} if requested else {}, capacities)
    return None if found is None else str(found["m"].value())


@pytest.mark.parametrize(
    ("requested", "policy", "expected"),
    [
        (None, {}, "8"),
        (None, {"default": "2"}, "2"),
        ("3", {}, "3"),
        ("3", {"validValues": ["2", "4"]}, "4"),
        ("4", {"validValues": ["2", "4"]}, "4"),
        ("5", {"validValues": ["2", "4"]}, None),
        ("5", {"validValues": ["2", "4"], "default": "5"}, "5"),
        ("1", {"validRange": {"min": "2"}}, "2"),
        ("2", {"validRange": {"min": "2"}}, "2"),
        ("3", {"validRange": {"min": "2", "step": "4"}}, "6"),
        ("6", {"validRange": {"min": "2", "step": "4"}}, "6"),
        ("6", {"validRange": {"min": "2", "max": "6"}}, "6"),
        ("7", {"validRange": {"min": "2", "max": "6"}}, None),
        ("7", {"validRange": {"min": "2", "max": "6"}, "default": "7"}, "7"),
        ("3", {"validRange": {"step": "2"}}, None),
        ("4", {"validRange": {"step": "2"}}, "4"),
    ],
)
def test_amount_follows_the_policy(requested: str | None, policy: Any, expected: str | None) -> None:
    assert consumed(requested, **policy) == expected


def test_capacity_that_a_device_lacks_is_not_provided() -> None:
    assert consumed_capacity({"other": "1"}, {"m": {"value": "8"}}) is None


@pytest.mark.parametrize(("amount", "used", "expected"), [(8, 0, True), (9, 0, False), (4, 4, True), (4, 5, False)])
def test_used_capacity_is_not_available(amount: int, used: int, *, expected: bool) -> None:
    assert suffices({"m": {"value": "8"}}, {"m": Quantity(amount)}, {"m": used * 10**9}) is expected
