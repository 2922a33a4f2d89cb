"""Tests for the scale subresource: objects that were stored before their definition had a scale."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource, ScalePaths
from apiserver_stub.subresources.scale import projection_of

WIDGETS = Resource("example.com", "v1", "Widget", "widgets", scale=ScalePaths())
METADATA = {"name": "a", "uid": "u"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"spec": []},
            ".spec.replicas accessor error: [] is of the type []interface {}, expected map[string]interface{}",
        ),
        ({"spec": 1.5}, ".spec.replicas accessor error: 1.5 is of the type float64, expected map[string]interface{}"),
        ({"spec": {"replicas": "3"}}, ".spec.replicas accessor error: 3 is of the type string, expected int64"),
        ({"spec": {"replicas": None}}, ".spec.replicas accessor error: <nil> is of the type <nil>, expected int64"),
        ({"status": {"replicas": True}}, ".status.replicas accessor error: true is of the type bool, expected int64"),
    ],
)
def test_field_of_another_type_is_reported(fields: dict[str, Any], message: str) -> None:
    projection, obj = projection_of(WIDGETS), {"metadata": METADATA, **fields}

    for use in (lambda: projection.read(obj), lambda: projection.write({"metadata": {}, "spec": {"replicas": 1}}, obj)):
        with pytest.raises(ApiError) as error:
            use()
        assert (error.value.code, error.value.reason, error.value.message) == (500, "", message)


@pytest.mark.parametrize("fields", [{}, {"status": None}, {"status": {}}])
def test_missing_observed_number_is_zero(fields: dict[str, Any]) -> None:
    scale = projection_of(WIDGETS).read({"metadata": METADATA, "spec": {"replicas": 0}, **fields})

    assert (scale["spec"], scale["status"]) == ({}, {"replicas": 0})


def test_replicas_below_null_cannot_be_set() -> None:
    with pytest.raises(ApiError) as error:
        projection_of(WIDGETS).write({"metadata": {}, "spec": {"replicas": 1}}, {"metadata": METADATA, "spec": None})

    message = "value cannot be set because .spec is not a map[string]interface{}"
    assert (error.value.code, error.value.reason, error.value.message) == (500, "", message)
