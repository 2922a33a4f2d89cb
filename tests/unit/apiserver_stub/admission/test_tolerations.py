"""Tests for coverage and merging of tolerations, and for extended resources."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.tolerations import covers, is_extended, merged

EVERYTHING = {"operator": "Exists"}
TEAM = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
SHORT = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        (TEAM, TEAM, True),
        (EVERYTHING, TEAM, True),
        (TEAM, EVERYTHING, False),
        ({**EVERYTHING, "effect": "NoSchedule"}, TEAM, True),
        ({**EVERYTHING, "effect": "NoExecute"}, TEAM, False),
        ({"key": "team", "operator": "Exists"}, TEAM, True),
        ({"key": "other", "operator": "Exists"}, TEAM, False),
        ({"key": "", "operator": "Equal"}, TEAM, False),
        ({"operator": "Equal", "value": "a"}, {"key": "", "operator": "Equal", "value": "a", "effect": "x"}, True),
        ({**TEAM, "effect": ""}, TEAM, True),
        ({**TEAM, "effect": None}, {**TEAM, "effect": None, "tolerationSeconds": 5}, True),
        ({**TEAM, "value": "b"}, TEAM, False),
        ({**TEAM, "operator": None, "effect": ""}, TEAM, True),
        ({**TEAM, "effect": ""}, {**TEAM, "operator": None}, False),
        ({**TEAM, "value": None, "effect": ""}, {**TEAM, "value": ""}, True),
        (SHORT, {**SHORT, "tolerationSeconds": 6}, False),
        (SHORT, {**SHORT, "tolerationSeconds": 4}, True),
        (SHORT, {**SHORT, "tolerationSeconds": 5, "value": ""}, True),
        (SHORT, {**SHORT, "tolerationSeconds": None}, False),
        ({**SHORT, "tolerationSeconds": None}, SHORT, True),
        ({**SHORT, "effect": ""}, {**SHORT, "tolerationSeconds": 6}, True),
        ({**SHORT, "operator": "Gt"}, SHORT, False),
    ],
)
def test_toleration_covers_equal_or_narrower_ones(wide: Any, narrow: Any, *, expected: bool) -> None:
    assert covers(wide, narrow) is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([TEAM, SHORT], [EVERYTHING, TEAM], [EVERYTHING]),
        ([EVERYTHING], [TEAM, SHORT], [EVERYTHING]),
        ([TEAM], [TEAM], [TEAM]),
        ([TEAM, TEAM], [SHORT], [TEAM, SHORT]),
        ([], [SHORT], [SHORT]),
    ],
)
def test_merged_tolerations_do_not_cover_each_other(first: Any, second: Any, expected: Any) -> None:
    assert merged(first, second) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cpu", False),
        ("example.com/gpu", True),
        ("requests.example.com/gpu", False),
        ("kubernetes.io/x", False),
        ("a.kubernetes.io/x", False),
        ("kubernetes.io.example.com/x", True),
    ],
)
def test_extended_resources_have_another_domain(name: str, *, expected: bool) -> None:
    assert is_extended(name, "kubernetes.io") is expected
