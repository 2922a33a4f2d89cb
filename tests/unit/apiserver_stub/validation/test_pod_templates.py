"""Tests for the rules that workloads share."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_templates import validate_at_most, validate_collisions, validate_pod_template
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.validation.pods import found, pod


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, None, []),
        (None, 0, []),
        (2, 2, []),
        (2, 3, []),
        (2, 1, ["Invalid value: 1: cannot be decremented"]),
        (2, None, ["Invalid value: 0: cannot be decremented"]),
        (0, 0, []),
        (0, None, ["Invalid value: 0: cannot be decremented"]),
    ],
)
def test_number_of_collisions_is_not_decremented(before: int | None, after: int | None, expected: list[str]) -> None:
    old, new = ({} if count is None else {"collisionCount": count} for count in (before, after))

    found = validate_collisions(new, old, "status")

    assert [cause.message for cause in found] == expected
    assert {cause.field for cause in found} <= {"status.collisionCount"}


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ({}, []),
        ({"ready": 2, "available": 2, "replicas": 2}, []),
        ({"ready": 3, "available": 2, "replicas": 2}, ["status.ready"]),
        ({"ready": 1, "available": 1}, ["status.ready", "status.available"]),
    ],
)
def test_counts_are_limited_by_another_field(status: dict[str, Any], fields: list[str]) -> None:
    found = validate_at_most(status, ("ready", "available"), "replicas", "status", "too many")

    assert [cause.field for cause in found] == fields


@pytest.mark.parametrize(("features", "errors"), [((), 0), (("AppArmorFields",), 1)])
def test_annotation_matches_the_profile_of_the_template(features: tuple[str, ...], errors: int) -> None:
    annotations = {"container.apparmor.security.beta.kubernetes.io/web": "unconfined"}
    made = pod(metadata={"annotations": annotations}, securityContext={"appArmorProfile": {"type": "RuntimeDefault"}})

    causes = validate_pod_template(made, "template", PodOptions(Identity(), features=frozenset(features)))

    assert len(causes) == errors, found(causes)
