"""Validation of persistent volume claims."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.validation.claims import (
    ClaimOptions,
    claim_warnings,
    validate_claim_status,
    validate_claim_update,
)
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release

SPEC: dict[str, Any] = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "2Gi"}},
    "volumeMode": "Filesystem",
}
CLASS = "volume.beta.kubernetes.io/storage-class"
GATES = ClaimOptions(Identity())


def claim(spec: dict[str, Any], phase: str = "Pending", **annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "claim", "annotations": annotations},
        "spec": deepcopy(spec),
        "status": {"phase": phase},
    }


def requesting(storage: str) -> dict[str, Any]:
    return {**SPEC, "resources": {"requests": {"storage": storage}}}


def short(causes: list[Cause]) -> list[tuple[str, str]]:
    return [(cause.reason.removeprefix("FieldValue"), cause.field) for cause in causes]


@pytest.mark.parametrize(
    ("new", "old", "errors"),
    [
        (claim(SPEC), claim(SPEC), []),
        (claim({**SPEC, "volumeName": "a"}), claim(SPEC), []),
        (claim(SPEC), claim({**SPEC, "volumeName": "a"}), [("Forbidden", "spec")]),
        (claim({**SPEC, "storageClassName": "a"}), claim(SPEC), []),
        (claim({**SPEC, "storageClassName": "a"}), claim({**SPEC, "storageClassName": "b"}), [("Forbidden", "spec")]),
        (claim({**SPEC, "volumeMode": "Block"}), claim(SPEC), [("Forbidden", "spec"), ("Invalid", "volumeMode")]),
        (claim(requesting("3Gi")), claim(SPEC), [("Forbidden", "spec")]),
        (claim(requesting("3Gi"), "Bound"), claim(SPEC, "Bound"), []),
        (claim(requesting("2147483648"), "Pending"), claim(SPEC), []),
        (
            claim(requesting("1Gi"), "Bound"),
            claim(SPEC, "Bound"),
            [("Forbidden", "spec.resources.requests.storage")],
        ),
        (claim({**SPEC, "storageClassName": "a"}), claim(SPEC, **{CLASS: "a"}), []),
        (
            claim({**SPEC, "storageClassName": "b"}),
            claim(SPEC, **{CLASS: "a"}),
            [("Invalid", f"metadata.annotations.{CLASS}"), ("Forbidden", "spec")],
        ),
        (
            claim({**SPEC, "accessModes": []}),
            claim(SPEC),
            [("Required", "spec.accessModes")] * 2 + [("Forbidden", "spec")],
        ),
    ],
)
def test_errors_of_an_update_are_those_of_upstream(
    new: dict[str, Any], old: dict[str, Any], errors: list[tuple[str, str]]
) -> None:
    assert short(validate_claim_update(new, old, GATES)) == errors


def test_failed_expansion_may_be_retried_with_less() -> None:
    old = claim(SPEC, "Bound")
    old["status"]["capacity"] = {"storage": "1Gi"}
    gates = ClaimOptions(Identity(), recovery=True)

    assert validate_claim_update(claim(requesting("1500Mi"), "Bound"), old, gates) == []
    assert short(validate_claim_update(claim(requesting("1Gi"), "Bound"), old, gates)) == [
        ("Forbidden", "spec.resources.requests.storage")
    ]


def test_errors_of_a_status_are_those_of_upstream() -> None:
    status = {
        "capacity": {"storage": "-1"},
        "allocatedResourceStatuses": {"cpu": "Failed"},
        "allocatedResources": {"storage": "-1", "example.com/x": "1"},
    }

    assert short(validate_claim_status(status, claim(SPEC), GATES)) == [("Invalid", "status.capacity[storage]")]
    assert short(validate_claim_status(status, claim(SPEC), ClaimOptions(Identity(), recovery=True))) == [
        ("Invalid", "status.capacity[storage]"),
        ("NotSupported", "status.allocatedResourceStatus"),
        ("NotSupported", "status.allocatedResourceStatus"),
        ("Invalid", "status.allocatedResources[storage]"),
    ]


@pytest.mark.parametrize(("state", "release"), [("NodeResizeFailed", (1, 31)), ("NodeResizeInfeasible", (1, 32))])
def test_status_of_a_failed_expansion_depends_on_the_release(state: str, release: tuple[int, int]) -> None:
    status = {"allocatedResourceStatuses": {"storage": state}}
    for each in ((1, 31), (1, 32)):
        options = ClaimOptions(Identity(), recovery=True, release=Release(*each))
        errors = short(validate_claim_status(status, claim(SPEC), options))
        assert errors == ([] if each == release else [("NotSupported", "status.allocatedResourceStatus")])


def test_deprecated_annotation_and_fractions_are_warned_about() -> None:
    assert claim_warnings(claim(requesting("1500m"), **{CLASS: "a"}), Identity()) == [
        f'metadata.annotations[{CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead',
        'spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer',
    ]
