"""Tests for conditions in the status of workload kinds."""

from __future__ import annotations

import pytest

from apiserver_stub.controllers.workloads.conditions import find, with_condition, without

OLD = {"type": "A", "status": "True", "reason": "R", "lastTransitionTime": "old"}
OTHER = {"type": "B", "status": "True"}


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("True", "R", [OLD, OTHER]),
        ("True", "S", [OTHER, {**OLD, "reason": "S", "lastTransitionTime": "old"}]),
        ("False", "R", [OTHER, {**OLD, "status": "False", "lastTransitionTime": "new"}]),
    ],
)
def test_time_changes_with_the_status(status: str, reason: str, expected: list[dict[str, str]]) -> None:
    new = {"type": "A", "status": status, "reason": reason, "lastTransitionTime": "new"}
    assert with_condition([OLD, OTHER], new) == expected


def test_missing_conditions_are_added() -> None:
    assert with_condition(None, OLD) == [OLD]
    assert with_condition([OTHER], OLD) == [OTHER, OLD]
    assert find(None, "A") is None
    assert find([OTHER, OLD], "A") is OLD
    assert without([OTHER, OLD], "A") == [OTHER]
