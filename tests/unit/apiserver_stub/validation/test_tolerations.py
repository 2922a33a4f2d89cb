"""Tests for the validation of tolerations."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.tolerations import validate_tolerations


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, []),
        ({"key": "a", "value": "b", "effect": "NoSchedule"}, []),
        ({}, ["Invalid t[0].operator"]),
        ({"key": "-a"}, ["Invalid t[0].key"]),
        ({"key": "a", "operator": "Exists", "value": "b"}, ["Invalid t[0].operator"]),
        ({"key": "a", "operator": "In"}, ["NotSupported t[0].operator"]),
        ({"key": "a", "value": "b c"}, ["Invalid t[0].operator"]),
        ({"key": "a", "effect": "Never"}, ["NotSupported t[0].effect"]),
        ({"key": "a", "tolerationSeconds": 0}, ["Invalid t[0].effect"]),
    ],
)
def test_fields_of_a_toleration(toleration: dict[str, Any], expected: list[str]) -> None:
    causes = validate_tolerations([toleration], "t")

    assert [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes] == expected
