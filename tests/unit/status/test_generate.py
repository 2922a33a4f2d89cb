"""Tests for generating the pod status from the runtime state."""

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from nodeagent.contracts.pods import WaitingReason
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.contracts.runtime import ContainerState
from nodeagent.model.pod import Container, PodCondition, PodIp, PodStatus
from nodeagent.status.generate import PodStatusInputs, _initialized, generate_status, presentable
from nodeagent.testing import FakeRuntime, make_container, make_pod

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def observe(runtime, pod, before=None, **more):
    seen = runtime.pod(pod.uid) if runtime is not None else None
    return PodStatusInputs(runtime=seen, before=before or PodStatus(), now=NOW, host_ips=["192.0.2.1"], **more)


def condition(status, name):
    return next(c for c in status.conditions if c.type == name)


def test_pod_without_runtime_state_is_pending_and_waiting():
    pod = make_pod("web")

    status = generate_status(pod, observe(None, pod))

    assert status.phase == "Pending"
    assert status.container_statuses[0].state.waiting.reason == "ContainerCreating"
    assert condition(status, "Ready").status == "False"
    assert condition(status, "ContainersReady").message == "containers with unready status: [main]"


def test_running_pod_is_ready_and_has_addresses():
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
def test_phase_after_container_exit_follows_restart_policy(policy, code, phase):
    pod, runtime = make_pod("job", restart_policy=policy), FakeRuntime()
    runtime.exit(runtime.start("main", pod), code)

    assert generate_status(pod, observe(runtime, pod)).phase == phase


RETRY_3 = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}]


@pytest.mark.parametrize(
    ("pod_policy", "policy", "rules", "code", "phase"),
    [
        ("Never", "Always", None, 0, "Running"),
        ("Never", "OnFailure", None, 1, "Running"),
        ("Never", "OnFailure", None, 0, "Succeeded"),
        ("Always", "Never", None, 0, "Succeeded"),
        ("Always", "Never", None, 1, "Failed"),
        ("Never", "Never", RETRY_3, 3, "Running"),
        ("Never", "Never", RETRY_3, 4, "Failed"),
    ],
)
def test_phase_after_container_exit_follows_its_own_policy(pod_policy, policy, rules, code, phase):
    container = make_container("main", restart_policy=policy, restart_policy_rules=rules)
    pod, runtime = make_pod("job", containers=[container], restart_policy=pod_policy), FakeRuntime()
    runtime.exit(runtime.start("main", pod), code)

    assert generate_status(pod, observe(runtime, pod)).phase == phase


@pytest.mark.parametrize(
    ("pod_policy", "policy", "phase"), [("Never", "OnFailure", "Pending"), ("Always", "Never", "Failed")]
)
def test_phase_after_failed_init_container_follows_its_own_policy(pod_policy, policy, phase):
    prepare = make_container("prepare", restart_policy=policy)
    pod, runtime = make_pod("web", init_containers=[prepare], restart_policy=pod_policy), FakeRuntime()
    runtime.exit(runtime.start("prepare", pod), 1)

    assert generate_status(pod, observe(runtime, pod)).phase == phase


@pytest.mark.parametrize("shown", [True, False])
def test_sandbox_condition_is_reported_unless_disabled(shown):
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.start("main", pod)

    status = generate_status(pod, observe(runtime, pod, sandbox_condition=shown))

    assert ("PodReadyToStartContainers" in [found.type for found in status.conditions]) is shown


def test_terminal_phase_never_changes():
    pod, runtime = make_pod("job", restart_policy="Never"), FakeRuntime()
    runtime.start("main", pod)

    status = generate_status(pod, observe(runtime, pod, PodStatus(phase="Failed", reason="Evicted")))

    assert (status.phase, status.reason) == ("Failed", "Evicted")


def test_pod_terminated_by_node_fails_only_without_running_containers():
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


def test_disruption_condition_is_added_and_kept():
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.start("main", pod)
    failed = ("Terminated", "the node goes")

    first = generate_status(
        pod, observe(runtime, pod, PodStatus(phase="Running"), failed=failed, disrupted="it is drained")
    )
    last = generate_status(pod, observe(None, pod, first, failed=failed, ended=True, disrupted="it is drained"))
    again = generate_status(pod, observe(None, pod, last, failed=failed, ended=True, disrupted="it is drained"))

    assert last.phase == again.phase == "Failed"
    reported = condition(again, "DisruptionTarget")
    assert (reported.status, reported.reason, reported.message) == ("True", "TerminationByKubelet", "it is drained")
    assert reported == condition(first, "DisruptionTarget")


def test_finished_pod_gets_no_disruption_condition():
    pod = make_pod("job", restart_policy="Never")

    status = generate_status(
        pod, observe(None, pod, PodStatus(phase="Succeeded"), failed=("Terminated", "late"), disrupted="late")
    )

    assert (status.phase, status.reason) == ("Succeeded", "")
    assert "DisruptionTarget" not in [c.type for c in status.conditions]


def test_crash_loop_is_waiting_with_last_termination():
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.exit(runtime.start("main", pod), 5)
    waiting = {"main": WaitingReason("CrashLoopBackOff", "back-off 10s restarting failed container=main")}

    status = generate_status(pod, observe(runtime, pod, waiting=waiting))

    shown = status.container_statuses[0]
    assert shown.state.waiting.reason == "CrashLoopBackOff"
    assert shown.last_state.terminated.exit_code == 5
    assert status.phase == "Running"


def test_missing_container_is_reported_as_lost():
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


def test_container_not_due_to_start_is_not_lost():
    pod, runtime = make_pod("web", init_containers=["one", "two"], restart_policy="Never"), FakeRuntime()
    runtime.exit(runtime.start("one", pod), 3)
    before = generate_status(pod, observe(runtime, pod))

    status = generate_status(pod, observe(runtime, pod, before, ended=True))

    assert ends_by_name(status) == {"one": "Error", "two": "PodInitializing", "main": "PodInitializing"}
    assert status.phase == "Failed"


def test_container_due_to_start_is_lost():
    pod, runtime = make_pod("web", init_containers=["one", "two"]), FakeRuntime()
    runtime.exit(runtime.start("one", pod), 0)
    runtime.exit(runtime.start("two", pod), 0)
    before = generate_status(pod, observe(runtime, pod))

    status = generate_status(pod, observe(runtime, pod, before, ended=True))

    assert ends_by_name(status) == {"one": "Completed", "two": "Completed", "main": "ContainerStatusUnknown"}


def test_final_termination_is_not_also_the_last_state():
    pod, runtime = make_pod("web", restart_policy="Never"), FakeRuntime()
    runtime.exit(runtime.start("main", pod), 137)
    waiting = {"main": WaitingReason("PostStartHookError", "why")}
    before = generate_status(pod, observe(runtime, pod, waiting=waiting))
    assert before.container_statuses[0].last_state.terminated is not None

    status = generate_status(pod, observe(runtime, pod, before, ended=True)).container_statuses[0]

    assert status.state.terminated is not None and status.last_state.terminated is None


def test_unfinished_init_containers_keep_pod_pending():
    pod, runtime = make_pod("web", init_containers=["prepare"]), FakeRuntime()
    runtime.start("prepare", pod)

    status = generate_status(pod, observe(runtime, pod))

    assert status.phase == "Pending"
    assert status.container_statuses[0].state.waiting.reason == "PodInitializing"
    assert condition(status, "Initialized").reason == "ContainersNotInitialized"


def test_pod_that_is_initialized_again_is_pending():
    pod, runtime = make_pod("web", init_containers=["prepare"]), FakeRuntime()
    runtime.exit(runtime.start("main", pod), 137)
    runtime.start("prepare", pod)

    assert generate_status(pod, observe(runtime, pod, PodStatus(phase="Running"))).phase == "Pending"


def test_init_container_not_started_waits_with_pod_initializing():
    """Clients that summarize pods treat any other reason as the cause of a problem."""
    pod = make_pod("web", init_containers=["prepare"])

    assert set(ends_by_name(generate_status(pod, observe(None, pod))).values()) == {"PodInitializing"}


def test_removed_init_container_of_an_initialized_pod_has_completed():
    pod = make_pod("web", init_containers=["prepare", make_container("proxy", restart_policy="Always")])
    runtime = FakeRuntime()
    runtime.start("main", pod)

    prepare, proxy = generate_status(pod, observe(runtime, pod)).init_container_statuses

    assert prepare.ready
    assert prepare.state.terminated.reason == "Completed"
    assert prepare.state.terminated.message.startswith("Unable to get init container status from container runtime")
    assert proxy.state.waiting is not None


def test_completed_init_container_stays_completed_while_pod_is_blocked():
    pod, runtime = make_pod("web", init_containers=["first"]), FakeRuntime()
    runtime.exit(runtime.start("first", pod), 0)
    held_back = dict.fromkeys(("first", "main"), WaitingReason("Blocked"))

    status = generate_status(pod, observe(runtime, pod, waiting=held_back))

    assert status.init_container_statuses[0].state.terminated.reason == "Completed"
    assert status.container_statuses[0].state.waiting.reason == "Blocked"


def test_running_container_in_unknown_state_is_terminated():
    pod, runtime = make_pod("job", restart_policy="Never"), FakeRuntime()
    runtime.start("main", pod)
    before = generate_status(pod, observe(runtime, pod))
    seen = runtime.pod(pod.uid)
    unknown = replace(seen, containers=[replace(seen.containers[0], state=ContainerState.UNKNOWN)])

    found = generate_status(pod, PodStatusInputs(runtime=unknown, before=before, now=NOW))
    again = generate_status(pod, PodStatusInputs(runtime=unknown, before=found, now=NOW))
    never_ran = generate_status(pod, PodStatusInputs(runtime=unknown, before=PodStatus(), now=NOW))

    end = found.container_statuses[0].state.terminated
    assert (found.phase, end.reason, end.exit_code) == ("Failed", "ContainerStatusUnknown", 137)
    assert again.container_statuses[0].state.terminated == end
    assert never_ran.phase == "Pending"


def test_failed_init_container_fails_pod_with_policy_never():
    pod, runtime = make_pod("web", init_containers=["prepare"], restart_policy="Never"), FakeRuntime()
    runtime.exit(runtime.start("prepare", pod), 1)

    assert generate_status(pod, observe(runtime, pod)).phase == "Failed"


def test_sidecar_counts_for_readiness_but_not_for_completion():
    sidecar = Container(name="proxy", image="proxy:1", restart_policy="Always")
    pod, runtime = make_pod("job", init_containers=[sidecar], restart_policy="Never"), FakeRuntime()
    runtime.start("proxy", pod)
    runtime.exit(runtime.start("main", pod), 0)

    assert generate_status(pod, observe(runtime, pod)).phase == "Succeeded"


def test_readiness_follows_probe_and_readiness_gates():
    probed = make_container(readiness_probe={"exec": {"command": ["check"]}})
    pod = make_pod("web", containers=[probed], readiness_gates=[{"conditionType": "example.com/ok"}])
    runtime = FakeRuntime()
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


def test_termination_messages_of_a_pod_are_limited_to_12_kib():
    pod, runtime = make_pod("job", containers=["a", "b", "c", "d"], restart_policy="Never"), FakeRuntime()
    for name in "abcd":
        runtime.exit(runtime.start(name, pod), 1, message="x" * 4096)

    status = generate_status(pod, observe(runtime, pod))

    assert [len(s.state.terminated.message) for s in status.container_statuses] == [3072] * 4


def test_message_limit_includes_init_containers_and_last_states():
    pod, runtime = make_pod("job", init_containers=["prepare"], containers=["a", "b", "c"]), FakeRuntime()
    runtime.exit(runtime.start("prepare", pod), 0, message="x" * 4096)
    for name in "abc":
        runtime.exit(runtime.start(name, pod), 1, message="\N{GREEK SMALL LETTER MU}" * 2048)
    waiting = {"a": WaitingReason("CrashLoopBackOff", "back-off 10s")}

    status = generate_status(pod, observe(runtime, pod, waiting=waiting))

    ends = [status.container_statuses[0].last_state, *(s.state for s in status.container_statuses[1:])]
    ends.append(status.init_container_statuses[0].state)
    assert [len(end.terminated.message.encode()) for end in ends] == [3072] * 4


def test_succeeded_pod_is_initialized_with_reason_pod_completed():
    pod, runtime = make_pod("job", restart_policy="Never"), FakeRuntime()
    runtime.exit(runtime.start("main", pod), 0)

    status = generate_status(pod, observe(runtime, pod))

    assert {c.type: (c.status, c.reason) for c in status.conditions if c.reason} == {
        "Initialized": ("True", "PodCompleted"),
        "Ready": ("False", "PodCompleted"),
        "ContainersReady": ("False", "PodCompleted"),
    }


def test_rejected_pod_has_unknown_init_container_statuses():
    pod = make_pod("web", init_containers=["prepare"])

    status = generate_status(pod, observe(None, pod, failed=("NodeAffinity", "no"), ended=True))

    reported = condition(status, "Initialized")
    assert (reported.status, reported.reason, reported.message) == ("False", "UnknownContainerStatuses", "")


def test_terminal_phase_is_reported_once_no_container_runs():
    sidecar = Container(name="proxy", image="proxy:1", restart_policy="Always")
    pod, runtime = make_pod("job", init_containers=[sidecar], restart_policy="Never"), FakeRuntime()
    proxy = runtime.start("proxy", pod)
    runtime.exit(runtime.start("main", pod), 0)
    before = PodStatus(phase="Running")

    early = presentable(generate_status(pod, observe(runtime, pod, before)), before, runtime.pod(pod.uid))
    runtime.exit(proxy, 143)
    late = presentable(generate_status(pod, observe(runtime, pod, early)), early, runtime.pod(pod.uid))

    assert (early.phase, late.phase) == ("Running", "Succeeded")


def test_transition_time_changes_only_with_the_status():
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.start("main", pod)
    before = generate_status(pod, observe(runtime, pod))
    later = PodStatusInputs(runtime=runtime.pod(pod.uid), before=before, now=datetime(2025, 1, 1, tzinfo=UTC))

    assert condition(generate_status(pod, later), "Ready").last_transition_time == NOW


# --- observed generation --------------------------------------------------------------------------------------------


def of_generation(generation, before=None, **more):
    runtime, pod = FakeRuntime(), make_pod("web", metadata={"generation": generation})
    runtime.start("main", pod)
    return generate_status(pod, observe(runtime, pod, before, **more))


def test_conditions_have_the_observed_generation():
    foreign = PodCondition(type="example.com/Ours", status="True", observed_generation=1)

    status = of_generation(3, PodStatus(conditions=[foreign]), observed_generation=True)

    assert status.observed_generation == 3
    assert condition(status, "example.com/Ours") == foreign
    assert all(c.observed_generation == 3 for c in status.conditions if c.type != foreign.type)


def test_observed_generation_never_decreases():
    assert of_generation(3, PodStatus(observed_generation=5), observed_generation=True).observed_generation == 5


def test_reported_generation_is_retained_without_the_feature():
    assert of_generation(3).observed_generation == 0
    assert of_generation(3, PodStatus(observed_generation=2)).observed_generation == 3


@pytest.mark.row("gate.PodHostIPs")
@pytest.mark.parametrize("shown", [True, False])
def test_host_addresses_are_reported_unless_disabled(shown):
    pod, runtime = make_pod("web"), FakeRuntime()

    status = generate_status(pod, observe(runtime, pod, host_ips_field=shown))

    assert status.host_ip == "192.0.2.1"
    assert status.host_ips == ([PodIp(ip="192.0.2.1")] if shown else None)


def test_terminal_phase_is_not_presented_while_the_pod_uses_claims():
    before, status = PodStatus(phase="Running"), PodStatus(phase="Succeeded")

    assert presentable(status, before, None, uses_claims=True).phase == "Running"
    assert presentable(status, before, None) == status


def test_addresses_of_a_removed_sandbox_are_retained_by_ended_pods_only():
    pod, before = make_pod("web"), [PodIp(ip="10.1.0.9")]

    def addresses(phase, **more):
        return generate_status(pod, observe(None, pod, PodStatus(phase=phase, pod_ips=before), **more)).pod_ips

    assert addresses("Running") is None
    assert addresses("Succeeded") == addresses("Failed") == addresses("Running", ended=True) == before


def test_pod_is_ready_to_start_containers_while_its_latest_sandbox_is():
    def ready(pod, *, kill=False):
        runtime = FakeRuntime()
        runtime.start("main", pod)
        if kill:
            runtime.kill_sandbox(runtime.pod(pod.uid).sandboxes[0].id)
        return condition(generate_status(pod, observe(runtime, pod)), "PodReadyToStartContainers").status

    assert ready(make_pod("web")) == "True"
    assert ready(make_pod("web"), kill=True) == "False"
    without_network = replace(FakeRuntime().pod("uid"), sandboxes=())
    status = generate_status(make_pod("web"), PodStatusInputs(runtime=without_network, before=PodStatus(), now=NOW))
    assert condition(status, "PodReadyToStartContainers").status == "False"


def test_pod_that_restarts_all_containers_stays_initialized():
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
    initialized = PodStatus(conditions=[PodCondition(type="Initialized", status="True")])
    never = PodStatus(conditions=[PodCondition(type="Initialized", status="False")])
    plain = make_pod("web", init_containers=["prepare"])
    restarting = make_pod("web", init_containers=[make_container("prepare", restart_policy_rules=rules)])

    def state(pod, before):
        return condition(generate_status(pod, observe(None, pod, before)), "Initialized").status

    assert state(restarting, initialized) == "True"
    assert state(restarting, never) == state(plain, initialized) == "False"


def test_condition_of_a_resize_is_reported_until_the_resize_completes():
    earlier = datetime(2023, 1, 1, tzinfo=UTC)
    pending = PodCondition(type="PodResizePending", status="True", last_transition_time=earlier)
    before, pod = PodStatus(phase="Running", conditions=[pending]), make_pod("web")

    def shown(before, **more):
        status = generate_status(pod, observe(None, pod, before, **more))
        return [c for c in status.conditions if c.type == pending.type]

    assert shown(before, resize_conditions=[replace_time(pending, None)]) == [pending]
    assert shown(before) == []
    assert shown(PodStatus(phase="Failed"), resize_conditions=[pending]) == []


def replace_time(condition, time):
    return msgspec.structs.replace(condition, last_transition_time=time)


def test_transition_time_is_that_of_the_change():
    pod, earlier = make_pod("web"), datetime(2023, 1, 1, tzinfo=UTC)

    def time(state, since):
        before = PodStatus(conditions=[PodCondition(type="Ready", status=state, last_transition_time=since)])
        return condition(generate_status(pod, observe(None, pod, before)), "Ready").last_transition_time

    assert (time("False", earlier), time("True", earlier), time("False", None)) == (earlier, NOW, NOW)


def test_phase_follows_the_states_of_all_containers():
    sidecar = make_container("proxy", restart_policy="Always")
    exits = {"ok": 0, "failed": 1}

    def phase(states, *, init=(), policy="Always", ended=False):
        """Phase of a pod; states: ``run``, ``ok`` (exited with 0), ``failed`` and ``-`` (never started)."""
        names = [f"c{number}" for number in range(len(states))]
        pod = make_pod("web", containers=names, init_containers=[sidecar, "i"] if init else (), restart_policy=policy)
        runtime = FakeRuntime()
        for name, state in (*zip(("proxy", "i"), init, strict=False), *zip(names, states, strict=True)):
            if state != "-":
                started = runtime.start(name, pod)
                if state in exits:
                    runtime.exit(started, exits[state])
        status = generate_status(pod, observe(runtime, pod, ended=ended))
        return status.phase

    assert phase(["run", "ok"], policy="Never") == "Running"
    assert phase(["run", "-"]) == "Pending"
    assert phase(["ok", "-"], policy="Never") == "Pending"
    assert phase(["ok", "failed"], policy="Never") == "Failed"
    assert phase(["ok", "failed"], policy="OnFailure") == "Running"
    assert phase(["ok", "ok"], policy="OnFailure") == "Succeeded"
    assert phase(["run"], init=["run", "run"]) == "Pending"
    assert phase(["run"], init=["-", "ok"]) == phase(["run"], init=["failed", "ok"]) == "Running"
    assert phase(["run"], init=["run", "failed"]) == "Running"
    assert phase(["-"], init=["run", "failed"], policy="Never") == "Failed"
    assert phase(["-"], ended=True) == phase(["ok", "-"], ended=True) == phase(["ok", "failed"], ended=True) == "Failed"
    assert phase(["ok", "ok"], ended=True) == "Succeeded"


def test_completed_container_waits_for_its_restart_and_is_not_ready():
    pod, runtime = make_pod("web", init_containers=["prepare"]), FakeRuntime()
    runtime.exit(runtime.start("prepare", pod), 0)
    runtime.exit(runtime.start("main", pod), 0)
    waiting = dict.fromkeys(("prepare", "main"), WaitingReason("CrashLoopBackOff"))

    status = generate_status(pod, observe(runtime, pod, waiting=waiting))

    (main,), (prepare,) = status.container_statuses, status.init_container_statuses
    assert (main.state.waiting.reason, main.ready, prepare.ready) == ("CrashLoopBackOff", False, True)


def test_running_init_and_ephemeral_containers_are_not_ready():
    debugger = {"name": "debug", "image": "debug:1"}
    sidecar = make_container("proxy", restart_policy="Always")
    pod = make_pod("web", init_containers=["prepare", sidecar], ephemeral_containers=[debugger])
    runtime = FakeRuntime()
    for name in ("prepare", "proxy", "main", "debug"):
        runtime.start(name, pod)

    status = generate_status(pod, observe(runtime, pod))

    groups = (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
    ready = {each.name: (each.started, each.ready) for group in groups for each in group}
    assert ready == {"prepare": (True, False), "proxy": (True, True), "main": (True, True), "debug": (True, False)}


def test_times_of_a_container_have_whole_seconds_or_are_absent():
    pod, runtime = make_pod("web", containers=["a", "b"]), FakeRuntime()
    runtime.start("a", pod)
    seen = runtime.pod(pod.uid)
    (run,) = seen.containers
    ended = replace(run, name="b", state=ContainerState.EXITED, started_at=0, created_at=5_900_000_000, finished_at=0)
    runs = (replace(run, started_at=1_999_999_999), ended)

    status = generate_status(pod, PodStatusInputs(runtime=replace(seen, containers=runs), before=PodStatus(), now=NOW))

    running, terminated = (each.state for each in status.container_statuses)
    assert running.running.started_at == datetime.fromtimestamp(1, UTC)
    assert terminated.terminated.started_at == datetime.fromtimestamp(5, UTC)
    assert terminated.terminated.finished_at is None


def test_restart_count_never_decreases():
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.start("main", pod)
    seen = runtime.pod(pod.uid)
    key = "io.kubernetes.container.restartCount"

    def count(annotation, attempt, before=None):
        annotations = {key: annotation} if annotation is not None else {}
        run = replace(seen.containers[0], attempt=attempt, annotations=annotations)
        old = PodStatus(container_statuses=[msgspec.structs.replace(shown, restart_count=before)] if before else None)
        status = generate_status(pod, PodStatusInputs(runtime=replace(seen, containers=(run,)), before=old, now=NOW))
        return status.container_statuses[0].restart_count

    (shown,) = generate_status(pod, observe(runtime, pod)).container_statuses
    assert [count("3", 1), count(None, 2), count("many", 2), count("3", 1, before=7)] == [3, 2, 2, 7]


def test_lost_container_counts_as_a_restart_unless_the_pod_ended():
    pod, runtime = make_pod("web", init_containers=["prepare"]), FakeRuntime()
    runtime.exit(runtime.start("prepare", pod), 0)
    runtime.start("main", pod)
    before = generate_status(pod, observe(runtime, pod))

    (lost,) = generate_status(pod, observe(None, pod, before)).container_statuses
    (ended,) = generate_status(pod, observe(None, pod, before, ended=True)).container_statuses

    assert (lost.state.waiting.reason, lost.last_state.terminated.exit_code) == ("PodInitializing", 137)
    assert "could not be located when the pod was deleted" in lost.last_state.terminated.message
    assert "could not be located when the pod was terminated" in ended.state.terminated.message
    (known,) = before.container_statuses
    assert (lost.restart_count, ended.restart_count) == (known.restart_count + 1, known.restart_count)
    assert ended.container_id == known.container_id


def test_container_that_never_ran_is_waiting_and_has_no_restarts():
    pod = make_pod("web")
    waiting = {"main": WaitingReason("ImagePullBackOff", "Back-off pulling image")}
    first = generate_status(pod, observe(None, pod, waiting=waiting))
    second = generate_status(pod, observe(None, pod, first))

    assert first.container_statuses[0].state.waiting.reason == "ImagePullBackOff"
    assert second.container_statuses[0].state.waiting.reason == "ContainerCreating"
    assert second.container_statuses[0].restart_count == 0


@pytest.mark.parametrize(
    ("state", "last_state", "initialized"),
    [
        ({"running": {}}, {}, "True"),
        ({"terminated": {"exitCode": 1}}, {}, "True"),
        ({"waiting": {}}, {"terminated": {"exitCode": 1}}, "True"),
        ({"waiting": {}}, {}, "False"),
    ],
)
def test_pod_whose_containers_have_started_is_initialized(state, last_state, initialized):
    def status(name, **fields):
        return {"name": name, "ready": False, "restartCount": 0, "image": "", "imageID": "", **fields}

    pod = make_pod("web", init_containers=["first"])
    reported = msgspec.convert(
        {
            "phase": "Pending",
            "initContainerStatuses": [status("first", state={"waiting": {}})],
            "containerStatuses": [status("main", state=state, lastState=last_state)],
        },
        PodStatus,
    )
    assert _initialized(pod, reported, PodStatus()).status == initialized
