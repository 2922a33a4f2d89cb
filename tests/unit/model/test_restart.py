"""Tests for the decision about a restart of a container."""

from __future__ import annotations

import pytest

from nodeagent.model.restart import may_restart, restarts_after_exit
from nodeagent.testing import make_container, make_pod


def rule(action: str, operator: str, *values: int):
    return {"action": action, "exitCodes": {"operator": operator, "values": list(values)}}


@pytest.mark.parametrize(
    ("rules", "code", "again"),
    [
        ([rule("Restart", "In", 3, 4)], 4, True),
        ([rule("Restart", "In", 3, 4)], 5, False),
        ([rule("Restart", "NotIn", 0)], 5, True),
        ([rule("Restart", "NotIn", 0)], 0, False),
        ([rule("Restart", "Is", 5)], 5, False),
        ([{"action": "Restart"}], 5, False),
        ([rule("Other", "In", 5), rule("Restart", "In", 5)], 5, False),
        ([rule("Other", "In", 6), rule("Restart", "In", 5)], 5, True),
        ([rule("RestartAllContainers", "In", 5)], 5, True),
    ],
)
def test_first_matching_rule_decides(rules, code, again):
    container = make_container(restart_policy="Never", restart_policy_rules=rules)

    assert restarts_after_exit(make_pod(restart_policy="Always"), container, code) is again


@pytest.mark.parametrize(
    ("pod_policy", "policy", "restarts"), [("Never", None, False), ("Never", "OnFailure", True), ("Always", None, True)]
)
def test_container_may_restart_unless_its_policy_is_never(pod_policy, policy, restarts):
    assert may_restart(make_pod(restart_policy=pod_policy), make_container(restart_policy=policy)) is restarts


def test_container_with_a_rule_may_restart():
    container = make_container(restart_policy="Never", restart_policy_rules=[rule("Restart", "In", 1)])

    assert may_restart(make_pod(restart_policy="Never"), container)
