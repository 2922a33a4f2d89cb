"""Tests for the decision about a restart of a container."""

from __future__ import annotations

import pytest

from nodeagent.model.pod import PodCondition, PodStatus
from nodeagent.model.restart import is_restarting_all, may_restart, may_restart_all, restarts_after_exit, restarts_all
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


@pytest.mark.parametrize(
    ("policy", "restarts"), [("Always", (True, True)), ("OnFailure", (False, True)), ("Never", (False, False))]
)
def test_policy_decides_without_rules(policy, restarts):
    pod, container = make_pod(restart_policy=policy), make_container()
    assert (restarts_after_exit(pod, container, 0), restarts_after_exit(pod, container, 1)) == restarts


@pytest.mark.parametrize(
    ("action", "code", "expected"),
    [("RestartAllContainers", 5, True), ("RestartAllContainers", 6, False), ("Restart", 5, False)],
)
def test_matching_rule_may_restart_all_containers(action, code, expected):
    assert restarts_all(make_container(restart_policy_rules=[rule(action, "In", 5)]), code) is expected


def test_rule_of_an_init_or_regular_container_may_restart_all():
    def container(action):
        return make_container(action.lower(), restart_policy_rules=[rule(action, "In", 5)])

    one, all_ = container("Restart"), container("RestartAllContainers")
    assert not may_restart_all(make_pod())
    assert not may_restart_all(make_pod(containers=[one], init_containers=[one]))
    assert may_restart_all(make_pod(containers=[one, all_]))
    assert may_restart_all(make_pod(containers=[one], init_containers=[all_]))


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (None, False),
        ([("Ready", "True")], False),
        ([("AllContainersRestarting", "False")], False),
        ([("Ready", "False"), ("AllContainersRestarting", "True")], True),
    ],
)
def test_condition_states_that_all_containers_restart(conditions, expected):
    found = [PodCondition(kind, status) for kind, status in conditions] if conditions is not None else None
    assert is_restarting_all(PodStatus(conditions=found)) is expected
