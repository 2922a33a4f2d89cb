"""Tests for the conditions of a namespace that is being deleted."""

from __future__ import annotations

import pytest

from apiserver_stub.controllers.namespace_conditions import merged_conditions

TIME = "2020-01-01T00:00:00Z"
NEW = {"type": "A", "status": "True", "reason": "R", "message": "m"}


@pytest.mark.parametrize(
    ("before", "retained"),
    [
        ({"type": "A", "status": "True", "lastTransitionTime": TIME}, True),
        ({"type": "A", "status": "False", "lastTransitionTime": TIME}, False),
        ({"type": "A", "status": "True"}, False),
    ],
)
def test_time_changes_only_with_the_status(before: dict[str, str], *, retained: bool) -> None:
    other = {"type": "B", "status": "True"}
    first, second = merged_conditions([before, other], [NEW])
    assert {name: first[name] for name in NEW} == NEW
    assert (first["lastTransitionTime"] == TIME) is retained
    assert first["lastTransitionTime"]
    assert second == other
