"""Tests for updates and columns of DeviceTaintRules."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.device_taint_rules import DeviceTaintRuleStrategy, taint_rules
from nodeagent.base.identity import Identity

EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def rule(effect: str = "NoSchedule", time: str | None = EARLIER) -> dict[str, Any]:
    taint = {"key": "k", "effect": effect, **({"timeAdded": time} if time else {})}
    return {"metadata": {"name": "r", "generation": 1}, "spec": {"taint": taint}, "status": {}}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (rule(), EARLIER),
        (rule("NoExecute"), None),
        (rule("NoExecute", LATER), LATER),
        (rule("NoSchedule", LATER), LATER),
        (rule("NoExecute", None), ""),
    ],
)
def test_time_of_a_taint_changes_with_its_effect(new: Any, expected: str | None) -> None:
    DeviceTaintRuleStrategy().prepare_update(new, rule(), "")

    found = new["spec"]["taint"].get("timeAdded", "")
    assert found == expected if expected is not None else found not in (EARLIER, LATER, "")


def test_rule_may_have_no_taint() -> None:
    new, old = ({"metadata": {"name": "r"}, "spec": {}, "status": {}} for _ in range(2))
    strategy = DeviceTaintRuleStrategy()

    strategy.prepare_update(new, old, "")

    assert new["spec"] == {}
    assert strategy.validate_update(new, {**old, "spec": None}, "")


@pytest.mark.parametrize(("time", "is_shown"), [(None, False), (EARLIER, True)])
def test_time_since_the_taint_was_added_is_shown(time: str | None, *, is_shown: bool) -> None:
    column = next(item for item in taint_rules(Identity()).columns if item.name == "TimeAdded")

    assert bool(column.cell(rule(time=time))) is is_shown
