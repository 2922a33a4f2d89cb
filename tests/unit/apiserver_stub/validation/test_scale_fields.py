"""Tests for the fields that the scale of a custom resource consists of."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.scale_fields import field_names, validate_scale_spec, validate_scale_status

SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def errors(obj: dict[str, Any]) -> list[tuple[str, str]]:
    found = validate_scale_spec(obj, SCALE) + validate_scale_status(obj, SCALE)
    return [(cause.field, cause.message) for cause in found]


def test_missing_fields_are_valid() -> None:
    assert errors({"spec": {"replicas": (1 << 31) - 1}}) == []
    assert errors({}) == errors({"spec": {"replicas": 2}, "status": {"replicas": 0, "selector": "a=b"}}) == []


@pytest.mark.parametrize(
    ("replicas", "text"),
    [
        (-1, "Invalid value: -1: should be a non-negative integer"),
        (1 << 31, "Invalid value: 2147483648: should be less than or equal to 2147483647"),
        (
            "x",
            "Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64",
        ),
    ],
)
def test_invalid_number_of_replicas(replicas: Any, text: str) -> None:
    assert errors({"spec": {"replicas": replicas}}) == [(".spec.replicas", text)]


def test_values_of_other_types_are_errors() -> None:
    found = dict(errors({"spec": {}, "status": {"selector": 1}}))

    expected = ".status.selector accessor error: 1 is of the type int64, expected string"
    assert found == {".status.selector": f'Invalid value: "": {expected}'}


def test_path_without_names() -> None:
    assert (field_names(""), field_names(".spec.replicas")) == ((), ("spec", "replicas"))
