"""Tests for the validation of the status of StatefulSets."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.stateful_sets import validate_stateful_set_status


@pytest.mark.parametrize(
    ("status", "old", "fields"),
    [
        (None, None, []),
        ({"collisionCount": 2}, {"collisionCount": 2}, []),
        ({"collisionCount": 1}, {"collisionCount": 2}, ["status.collisionCount"]),
        ({}, {"collisionCount": 2}, ["status.collisionCount"]),
        ({"collisionCount": 1}, None, []),
        ({"observedGeneration": -1}, None, ["status.observedGeneration"]),
        ({"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "currentReplicas": 1}, None, []),
        ({"replicas": 1, "readyReplicas": 2}, None, ["status.readyReplicas"]),
        ({"replicas": 2, "readyReplicas": 1, "availableReplicas": 2}, None, ["status.availableReplicas"]),
    ],
)
def test_numbers_of_the_status_are_validated(status: Any, old: Any, fields: list[str]) -> None:
    new, stored = ({} if each is None else {"status": each} for each in (status, old))

    assert [cause.field for cause in validate_stateful_set_status(new, stored)] == fields
