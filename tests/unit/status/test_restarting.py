"""Tests for the status of a pod whose containers are all restarted."""

from datetime import UTC, datetime

import pytest

from nodeagent.model.pod import PodStatus
from nodeagent.status.generate import PodStatusInputs, generate_status
from nodeagent.testing import FakeRuntime, make_container, make_pod

NOW = datetime(2024, 1, 1, tzinfo=UTC)
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}


def pod_with_rule(policy="Never"):
    trigger = make_container("trigger", restart_policy="Never", restart_policy_rules=[RULE])
    return make_pod("web", init_containers=["init"], containers=[trigger, "other"], restart_policy=policy)


def generate(pod, runtime, before=None, **more):
    seen = runtime.pod(pod.uid) if runtime is not None else None
    inputs = PodStatusInputs(runtime=seen, before=before or PodStatus(), now=NOW, host_ips=["192.0.2.1"], **more)
    return generate_status(pod, inputs)


def condition(status, name="AllContainersRestarting"):
    return next((c for c in status.conditions if c.type == name), None)


@pytest.fixture
def pod():
    return pod_with_rule()


@pytest.fixture
def running(pod):
    runtime = FakeRuntime()
    runtime.exit(runtime.start("init", pod), 0)
    runtime.start("trigger", pod)
    runtime.start("other", pod)
    return runtime


def exited(pod, runtime, name="trigger", code=42):
    runtime.exit(runtime.pod(pod.uid).newest(name).id, code)
    return generate(pod, runtime, generate(pod, runtime))


def counts(status):
    return {s.name: s.restart_count for s in (*status.init_container_statuses, *status.container_statuses)}


async def remove(pod, runtime, *names):
    for name in names:
        container_id = runtime.pod(pod.uid).newest(name).id
        await runtime.stop_container(container_id, 0)
        await runtime.remove_container(container_id)


def test_only_pods_with_such_a_rule_have_the_condition(pod, running):
    assert condition(generate(pod, running)).status == "False"
    assert condition(generate(make_pod("plain"), FakeRuntime())) is None


def test_matching_exit_starts_the_restart_and_keeps_the_pod_running(pod, running):
    status = exited(pod, running)

    found = condition(status)
    assert (found.status, found.reason, found.message) == (
        "True",
        "RestartAllContainersStarted",
        "container exited with restart policy rule",
    )
    assert status.phase == "Running"


def test_other_exit_code_does_not_start_a_restart(pod, running):
    assert condition(exited(pod, running, code=1)).status == "False"


async def test_removed_container_waits_while_others_are_left(pod, running):
    before = exited(pod, running)
    await remove(pod, running, "other")

    status = generate(pod, running, before)

    assert condition(status).status == "True"
    other = next(s for s in status.container_statuses if s.name == "other")
    assert (other.state.waiting.reason, other.state.waiting.message) == (
        "RestartingAllContainers",
        "The container is removed because RestartAllContainers in place",
    )
    last = other.last_state.terminated
    assert (last.exit_code, last.reason, last.message) == (137, "RestartingAllContainers", other.state.waiting.message)
    assert other.restart_count == counts(before)["other"] + 1


async def test_restart_ends_when_no_container_is_left(pod, running):
    before = exited(pod, running)
    await remove(pod, running, "other", "init", "trigger")

    status = generate(pod, running, before)
    later = generate(pod, running, status)

    assert condition(status).status == condition(later).status == "False"
    assert condition(status, "Initialized").status == "True"
    assert status.phase == later.phase == "Running"
    assert {s.state.waiting.reason for s in status.container_statuses} == {"RestartingAllContainers"}
    assert {s.state.waiting.reason for s in later.container_statuses} == {"PodInitializing"}
    assert counts(later) == {name: count + 1 for name, count in counts(before).items()}


async def test_restarted_agent_continues_from_the_condition(pod, running):
    reported = PodStatus(conditions=exited(pod, running).conditions)
    await remove(pod, running, "trigger")

    assert condition(generate(pod, running, reported)).status == "True"


async def test_new_run_counts_the_restart_and_reports_the_last_state(pod, running):
    before = exited(pod, running)
    await remove(pod, running, "other", "init", "trigger")
    status = generate(pod, running, before)
    running.exit(running.start("init", pod), 0)
    running.start("trigger", pod)
    running.start("other", pod)

    status = generate(pod, running, status)

    assert condition(status).status == "False"
    for each in status.container_statuses:
        assert each.restart_count > counts(before)[each.name]
        assert each.last_state.terminated.reason == "RestartingAllContainers"


@pytest.mark.parametrize(
    ("more", "reason"),
    [({"failed": ("Evicted", "the node was low on memory")}, ""), ({"ended": True}, "PodFailed")],
)
def test_pod_that_terminates_is_not_restarted(pod, running, more, reason):
    running.exit(running.pod(pod.uid).newest("trigger").id, 42)
    if more.get("ended"):
        running.exit(running.pod(pod.uid).newest("other").id, 1)

    found = condition(generate(pod, running, **more))

    assert (found.status, found.reason) == ("False", reason)
