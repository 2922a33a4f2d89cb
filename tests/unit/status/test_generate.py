"""The reported status follows from what the runtime shows."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from nodeagent.contracts.pods import WaitingReason
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import ContainerState
from nodeagent.model.pod import Container, PodCondition, PodStatus
from nodeagent.status.generate import Observation, generate_status, presentable
from nodeagent.testing import FakeRuntime, make_container, make_pod

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def observe(runtime, pod, before=None, **more):
    seen = runtime.pod(pod.uid) if runtime is not None else None
    return Observation(runtime=seen, before=before or PodStatus(), now=NOW, host_ips=["192.0.2.1"], **more)


def condition(status, name):
    return next(c for c in status.conditions if c.type == name)


def test_a_pod_nothing_is_known_of_is_pending_and_waits():
    pod = make_pod("web")

    status = generate_status(pod, observe(None, pod))

    assert status.phase == "Pending"
    assert status.container_statuses[0].state.waiting.reason == "ContainerCreating"
    assert condition(status, "Ready").status == "False"
    assert condition(status, "ContainersReady").message == "containers with unready status: [main]"


def test_a_running_pod_is_ready_and_shows_its_addresses():
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.start("main", pod)

    status = generate_status(pod, observe(runtime, pod))

    assert status.phase == "Running"
    assert condition(status, "Ready").status == "True"
    assert status.pod_ip == status.pod_ips[0].ip != ""
    assert status.host_ip == "192.0.2.1"
    assert status.container_statuses[0].container_id.startswith("containerd://")
    assert status.qos_class == "BestEffort"


def test_container_without_result_of_its_startup_probe_is_not_ready():
    container = make_container(startup_probe={"exec": {"command": ["check"]}})
    pod, runtime = make_pod("web", containers=[container]), FakeRuntime()
    runtime.start("main", pod)

    (status,) = generate_status(pod, observe(runtime, pod)).container_statuses

    assert (status.started, status.ready) == (False, False)


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        ("Never", 0, "Succeeded"),
        ("Never", 1, "Failed"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 1, "Running"),
        ("Always", 0, "Running"),
    ],
)
def test_the_phase_of_an_ended_container_follows_the_restart_policy(policy, code, phase):
    pod, runtime = make_pod("job", restart_policy=policy), FakeRuntime()
    runtime.exit(runtime.start("main", pod), code)

    assert generate_status(pod, observe(runtime, pod)).phase == phase


@pytest.mark.parametrize("shown", [True, False])
def test_the_condition_of_the_sandbox_is_shown_unless_switched_off(shown):
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.start("main", pod)

    status = generate_status(pod, observe(runtime, pod, sandbox_condition=shown))

    assert ("PodReadyToStartContainers" in [found.type for found in status.conditions]) is shown


def test_a_final_phase_is_kept_for_ever():
    pod, runtime = make_pod("job", restart_policy="Never"), FakeRuntime()
    runtime.start("main", pod)

    status = generate_status(pod, observe(runtime, pod, PodStatus(phase="Failed", reason="Evicted")))

    assert (status.phase, status.reason) == ("Failed", "Evicted")


def test_a_pod_ended_by_the_node_fails_only_when_nothing_runs():
    pod, runtime = make_pod("web"), FakeRuntime()
    container = runtime.start("main", pod)
    failed = ("Evicted", "node was low on memory")
    before = PodStatus(phase="Running")

    first = generate_status(pod, observe(runtime, pod, before, failed=failed))
    runtime.exit(container, 137)
    runtime.kill_sandbox(runtime.pod(pod.uid).sandboxes[0].id)
    last = generate_status(pod, observe(runtime, pod, first, failed=failed, ended=True))

    assert (first.phase, last.phase) == ("Running", "Failed")
    assert (last.reason, last.message) == failed


def test_a_pod_ended_for_the_nodes_sake_says_so_and_keeps_saying_it():
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.start("main", pod)
    failed = ("Terminated", "the node goes")

    first = generate_status(
        pod, observe(runtime, pod, PodStatus(phase="Running"), failed=failed, disrupted="it is drained")
    )
    last = generate_status(pod, observe(None, pod, first, failed=failed, ended=True, disrupted="it is drained"))
    again = generate_status(pod, observe(None, pod, last, failed=failed, ended=True, disrupted="it is drained"))

    assert last.phase == again.phase == "Failed"
    told = condition(again, "DisruptionTarget")
    assert (told.status, told.reason, told.message) == ("True", "TerminationByKubelet", "it is drained")
    assert told == condition(first, "DisruptionTarget")


def test_a_pod_that_had_finished_already_was_not_disrupted():
    pod = make_pod("job", restart_policy="Never")

    status = generate_status(
        pod, observe(None, pod, PodStatus(phase="Succeeded"), failed=("Terminated", "late"), disrupted="late")
    )

    assert (status.phase, status.reason) == ("Succeeded", "")
    assert "DisruptionTarget" not in [c.type for c in status.conditions]


def test_a_restart_back_off_shows_as_waiting_with_the_last_end():
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.exit(runtime.start("main", pod), 5)
    waiting = {"main": WaitingReason("CrashLoopBackOff", "back-off 10s restarting failed container=main")}

    status = generate_status(pod, observe(runtime, pod, waiting=waiting))

    shown = status.container_statuses[0]
    assert shown.state.waiting.reason == "CrashLoopBackOff"
    assert shown.last_state.terminated.exit_code == 5
    assert status.phase == "Running"


def test_a_container_that_vanished_is_shown_as_lost():
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.start("main", pod)
    before = generate_status(pod, observe(runtime, pod))

    status = generate_status(pod, observe(None, pod, before, ended=True))

    lost = status.container_statuses[0].state.terminated
    assert (lost.reason, lost.exit_code) == ("ContainerStatusUnknown", 137)


def ends_by_name(status):
    every = [*(status.init_container_statuses or ()), *status.container_statuses]
    return {
        one.name: one.state.terminated.reason if one.state.terminated else one.state.waiting.reason for one in every
    }


def test_a_container_whose_turn_never_came_is_not_lost():
    pod, runtime = make_pod("web", init_containers=["one", "two"], restart_policy="Never"), FakeRuntime()
    runtime.exit(runtime.start("one", pod), 3)
    before = generate_status(pod, observe(runtime, pod))

    status = generate_status(pod, observe(runtime, pod, before, ended=True))

    assert ends_by_name(status) == {"one": "Error", "two": "PodInitializing", "main": "PodInitializing"}
    assert status.phase == "Failed"


def test_a_container_whose_turn_had_come_is_lost():
    pod, runtime = make_pod("web", init_containers=["one", "two"]), FakeRuntime()
    runtime.exit(runtime.start("one", pod), 0)
    runtime.exit(runtime.start("two", pod), 0)
    before = generate_status(pod, observe(runtime, pod))

    status = generate_status(pod, observe(runtime, pod, before, ended=True))

    assert ends_by_name(status) == {"one": "Completed", "two": "Completed", "main": "ContainerStatusUnknown"}


def test_a_run_that_is_never_repeated_is_not_its_own_predecessor():
    pod, runtime = make_pod("web", restart_policy="Never"), FakeRuntime()
    runtime.exit(runtime.start("main", pod), 137)
    waiting = {"main": WaitingReason("PostStartHookError", "why")}
    before = generate_status(pod, observe(runtime, pod, waiting=waiting))
    assert before.container_statuses[0].last_state.terminated is not None

    status = generate_status(pod, observe(runtime, pod, before, ended=True)).container_statuses[0]

    assert status.state.terminated is not None and status.last_state.terminated is None


def test_init_containers_hold_the_pod_pending():
    pod, runtime = make_pod("web", init_containers=["prepare"]), FakeRuntime()
    runtime.start("prepare", pod)

    status = generate_status(pod, observe(runtime, pod))

    assert status.phase == "Pending"
    assert status.container_statuses[0].state.waiting.reason == "PodInitializing"
    assert condition(status, "Initialized").reason == "ContainersNotInitialized"


def test_an_init_container_that_has_not_begun_is_part_of_initializing():
    """Whoever shows pods in one word takes any other reason for what holds the pod up."""
    pod = make_pod("web", init_containers=["prepare"])

    assert set(ends_by_name(generate_status(pod, observe(None, pod))).values()) == {"PodInitializing"}


def test_an_init_container_that_is_done_stays_so_while_the_pod_is_held_back():
    pod, runtime = make_pod("web", init_containers=["first"]), FakeRuntime()
    runtime.exit(runtime.start("first", pod), 0)
    held_back = dict.fromkeys(("first", "main"), WaitingReason("Blocked"))

    status = generate_status(pod, observe(runtime, pod, waiting=held_back))

    assert status.init_container_statuses[0].state.terminated.reason == "Completed"
    assert status.container_statuses[0].state.waiting.reason == "Blocked"


def test_a_container_of_which_the_runtime_can_tell_nothing_has_ended_if_it_ran():
    pod, runtime = make_pod("job", restart_policy="Never"), FakeRuntime()
    runtime.start("main", pod)
    before = generate_status(pod, observe(runtime, pod))
    seen = runtime.pod(pod.uid)
    unknown = replace(seen, containers=[replace(seen.containers[0], state=ContainerState.UNKNOWN)])

    found = generate_status(pod, Observation(runtime=unknown, before=before, now=NOW))
    again = generate_status(pod, Observation(runtime=unknown, before=found, now=NOW))
    never_ran = generate_status(pod, Observation(runtime=unknown, before=PodStatus(), now=NOW))

    end = found.container_statuses[0].state.terminated
    assert (found.phase, end.reason, end.exit_code) == ("Failed", "ContainerStatusUnknown", 137)
    assert again.container_statuses[0].state.terminated == end
    assert never_ran.phase == "Pending"


def test_a_failed_init_container_fails_a_pod_that_never_restarts():
    pod, runtime = make_pod("web", init_containers=["prepare"], restart_policy="Never"), FakeRuntime()
    runtime.exit(runtime.start("prepare", pod), 1)

    assert generate_status(pod, observe(runtime, pod)).phase == "Failed"


def test_a_sidecar_counts_for_ready_but_not_for_the_end():
    sidecar = Container(name="proxy", image="proxy:1", restart_policy="Always")
    pod, runtime = make_pod("job", init_containers=[sidecar], restart_policy="Never"), FakeRuntime()
    runtime.start("proxy", pod)
    runtime.exit(runtime.start("main", pod), 0)

    assert generate_status(pod, observe(runtime, pod)).phase == "Succeeded"


def test_readiness_follows_the_probe_and_the_gates():
    pod, runtime = make_pod("web", readiness_gates=[{"conditionType": "example.com/ok"}]), FakeRuntime()
    runtime.start("main", pod)
    probes = {ProbeKind.READINESS: ProbeResult.SUCCESS}

    closed = generate_status(pod, observe(runtime, pod, probes=lambda _, kind: probes.get(kind)))
    gate = PodStatus(conditions=[PodCondition(type="example.com/ok", status="True")])
    opened = generate_status(pod, observe(runtime, pod, gate, probes=lambda _, kind: probes.get(kind)))
    probes[ProbeKind.READINESS] = ProbeResult.FAILURE
    failing = generate_status(pod, observe(runtime, pod, gate, probes=lambda _, kind: probes.get(kind)))

    assert condition(closed, "Ready").reason == "ReadinessGatesNotReady"
    assert condition(opened, "Ready").status == "True"
    assert condition(failing, "Ready").reason == "ContainersNotReady"


def test_termination_messages_of_a_pod_share_12_kib():
    pod, runtime = make_pod("job", containers=["a", "b", "c", "d"], restart_policy="Never"), FakeRuntime()
    for name in "abcd":
        runtime.exit(runtime.start(name, pod), 1, message="x" * 4096)

    status = generate_status(pod, observe(runtime, pod))

    assert [len(s.state.terminated.message) for s in status.container_statuses] == [3072] * 4


def test_messages_of_init_containers_and_of_last_ends_have_part_in_the_12_kib():
    pod, runtime = make_pod("job", init_containers=["prepare"], containers=["a", "b", "c"]), FakeRuntime()
    runtime.exit(runtime.start("prepare", pod), 0, message="x" * 4096)
    for name in "abc":
        runtime.exit(runtime.start(name, pod), 1, message="\N{GREEK SMALL LETTER MU}" * 2048)
    waiting = {"a": WaitingReason("CrashLoopBackOff", "back-off 10s")}

    status = generate_status(pod, observe(runtime, pod, waiting=waiting))

    ends = [status.container_statuses[0].last_state, *(s.state for s in status.container_statuses[1:])]
    ends.append(status.init_container_statuses[0].state)
    assert [len(end.terminated.message.encode()) for end in ends] == [3072] * 4


def test_a_pod_that_succeeded_is_initialized_because_it_is_complete():
    pod, runtime = make_pod("job", restart_policy="Never"), FakeRuntime()
    runtime.exit(runtime.start("main", pod), 0)

    status = generate_status(pod, observe(runtime, pod))

    assert {c.type: (c.status, c.reason) for c in status.conditions if c.reason} == {
        "Initialized": ("True", "PodCompleted"),
        "Ready": ("False", "PodCompleted"),
        "ContainersReady": ("False", "PodCompleted"),
    }


def test_nothing_is_known_of_the_init_containers_of_a_refused_pod():
    pod = make_pod("web", init_containers=["prepare"])

    status = generate_status(pod, observe(None, pod, failed=("NodeAffinity", "no"), ended=True))

    told = condition(status, "Initialized")
    assert (told.status, told.reason, told.message) == ("False", "UnknownContainerStatuses", "")


def test_a_final_phase_is_told_once_no_container_runs():
    sidecar = Container(name="proxy", image="proxy:1", restart_policy="Always")
    pod, runtime = make_pod("job", init_containers=[sidecar], restart_policy="Never"), FakeRuntime()
    proxy = runtime.start("proxy", pod)
    runtime.exit(runtime.start("main", pod), 0)
    before = PodStatus(phase="Running")

    early = presentable(generate_status(pod, observe(runtime, pod, before)), before, runtime.pod(pod.uid))
    runtime.exit(proxy, 143)
    late = presentable(generate_status(pod, observe(runtime, pod, early)), early, runtime.pod(pod.uid))

    assert (early.phase, late.phase) == ("Running", "Succeeded")


def test_transition_times_move_only_with_the_status():
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.start("main", pod)
    before = generate_status(pod, observe(runtime, pod))
    later = Observation(runtime=runtime.pod(pod.uid), before=before, now=datetime(2025, 1, 1, tzinfo=UTC))

    assert condition(generate_status(pod, later), "Ready").last_transition_time == NOW
