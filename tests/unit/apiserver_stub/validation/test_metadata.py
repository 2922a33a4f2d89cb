"""Tests for the validation of object metadata."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.metadata import validate_any_update, validate_metadata


def metadata(**members: Any) -> dict[str, Any]:
    return {"name": "web", "namespace": "default", "uid": "1", **members}


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, []),
        ({"name": ""}, ["FieldValueRequired metadata.name"]),
        ({"generateName": "Web-"}, ["FieldValueInvalid metadata.generateName"]),
        ({"generation": -1}, ["FieldValueInvalid metadata.generation"]),
        ({"labels": {"a": "b c"}}, ["FieldValueInvalid metadata.labels"]),
        ({"annotations": {"A B": ""}}, ["FieldValueInvalid metadata.annotations"]),
        ({"finalizers": ["abc"]}, ["FieldValueInvalid metadata.finalizers[0]"]),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, ["FieldValueInvalid metadata.finalizers"]),
        (
            {"ownerReferences": [{"apiVersion": "a/", "kind": "A", "name": "a", "uid": "1"}]},
            ["FieldValueInvalid metadata.ownerReferences.apiVersion"],
        ),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "1"}]},
            ["FieldValueInvalid metadata.ownerReferences"],
        ),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": True}] * 2},
            ["FieldValueInvalid metadata.ownerReferences"],
        ),
    ],
)
def test_metadata_of_new_objects(members: dict[str, Any], expected: list[str]) -> None:
    assert [f"{cause.reason} {cause.field}" for cause in validate_metadata(metadata(**members))] == expected


@pytest.mark.parametrize(
    ("members", "field", "times"),
    [
        ({"labels": {"a": "b c"}}, "metadata.labels", 4),
        ({"uid": "2"}, "metadata.uid", 2),
        ({"deletionTimestamp": "2024-01-02T03:04:05Z"}, "metadata.deletionTimestamp", 2),
        ({"deletionGracePeriodSeconds": 0}, "metadata.deletionGracePeriodSeconds", 2),
        ({"generateName": "a//b"}, "metadata.generateName", 2),
        ({"generateName": "A"}, "metadata.generateName", 1),
    ],
)
def test_update_reports_errors_as_often_as_upstream(members: dict[str, Any], field: str, times: int) -> None:
    causes = validate_any_update(metadata(**members), metadata())

    assert [(cause.reason, cause.field) for cause in causes] == [("FieldValueInvalid", field)] * times


def test_deleted_object_accepts_no_new_finalizers() -> None:
    old = metadata(deletionTimestamp="2024-01-02T03:04:05Z", finalizers=["a/b"])

    causes = validate_any_update({**old, "finalizers": ["a/b", "a/c"]}, old, change=False, result=False)

    assert [(cause.reason, cause.field) for cause in causes] == [("FieldValueForbidden", "metadata.finalizers")]
