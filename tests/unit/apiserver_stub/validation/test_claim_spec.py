"""Tests for the validation of claim specs and claim templates."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.claim_spec import claim_spec_warnings, validate_claim_spec, validate_claim_template


def spec(**members: Any) -> dict[str, Any]:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **members}


def found(causes: list[Any]) -> list[str]:
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, []),
        ({"accessModes": []}, ["Required s.accessModes"]),
        ({"accessModes": ["Bad"]}, ["NotSupported s.accessModes"]),
        ({"accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]}, ["Forbidden s.accessModes"]),
        ({"resources": {}}, ["Required s.resources[storage]"]),
        ({"resources": {"requests": {"storage": "0"}}}, ["Invalid s.resources[storage]"]),
        ({"storageClassName": "A"}, ["Invalid s.storageClassName"]),
        ({"volumeMode": "File"}, ["NotSupported s.volumeMode"]),
        ({"dataSource": {"kind": "A", "name": "a"}}, ["Invalid s.dataSource"]),
        (
            {
                "dataSource": {"kind": "PersistentVolumeClaim", "name": "a"},
                "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "b"},
            },
            ["Invalid s"],
        ),
    ],
)
def test_fields_of_a_claim(members: dict[str, Any], expected: list[str]) -> None:
    assert found(validate_claim_spec(spec(**members), "s")) == expected


def test_template_metadata_has_labels_and_annotations_only() -> None:
    metadata = {"labels": {"a": "b"}, "name": "x", "uid": "1", "creationTimestamp": None}

    causes = validate_claim_template({"metadata": metadata, "spec": spec()}, "t")

    assert found(causes) == ["Forbidden t.metadata.name", "Forbidden t.metadata.uID"]


def test_fraction_of_a_byte_is_warned_about() -> None:
    assert claim_spec_warnings(spec(resources={"requests": {"storage": "1500m"}}), "s") == [
        's.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    ]
