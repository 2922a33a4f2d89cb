"""Tests for the invariants of a simulated node: each violation is recorded, permitted behavior is not."""

from math import inf
from types import SimpleNamespace

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.simulation.pods import RULE_CODE
from nodeagent.simulation.restart_rate import MOST_STARTS

from .host import START, Host, api_pod

# --- starts


def test_pod_with_two_ready_sandboxes_is_a_violation(host):
    host.sandbox("a")
    host.sandbox("b")
    assert host.violation == ""

    host.sandbox("a")

    assert host.violation == "pod a has the sandboxes ['s0', 's2'] at the same time"


def test_new_sandbox_may_replace_one_that_is_not_ready(host):
    host.sandbox("a").ready = False

    host.sandbox("a")

    assert host.violation == ""


def test_container_that_runs_twice_is_a_violation(host):
    sandbox = host.sandbox("a")
    host.start(host.container(sandbox))
    host.start(host.container(sandbox, "other"))
    host.start(host.container(host.sandbox("b")))
    assert host.violation == ""

    host.start(host.container(sandbox))

    assert host.violation == "container web of pod a runs more than once: ['c0', 'c3']"


def test_device_with_two_holders_is_a_violation(host):
    def holding(uid, *devices):
        return host.container(host.sandbox(uid), envs=[cri.KeyValue(key="DEVICES", value=",".join(devices))])

    host.start(holding("a", "d0", "d1"))
    host.start(holding("b", "d2"))
    assert host.violation == ""

    host.start(holding("c", "d1"))

    assert host.violation == "device d1 is held by the pods ['a', 'c']"


def test_container_with_damaged_hosts_file_is_a_violation(host, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    mounts = [cri.Mount(container_path="/etc/hosts", host_path=str(hosts))]
    host.start(host.container(host.sandbox("a"), mounts=mounts))
    assert host.violation == ""

    hosts.write_text("")
    host.start(host.container(host.sandbox("b"), mounts=mounts))

    assert host.violation == f"{hosts} is damaged at the start of web"


def test_volume_that_is_removed_while_its_container_runs_is_a_violation(host, tmp_path):
    volume = tmp_path / "volume"
    volume.mkdir()
    mounts = [cri.Mount(container_path="/data", host_path=str(volume))]
    container = host.start(host.container(host.sandbox("a"), mounts=mounts))
    host.invariants.verify_mounts()
    assert host.violation == ""

    volume.rmdir()
    host.invariants.verify_mounts()
    assert host.violation == "/data of container web of pod a is removed while the container runs"

    host.invariants.violation = ""
    host.end(container)
    host.invariants.verify_mounts()
    assert host.violation == ""


def configured(host, uid, directory, **files):
    """Return a running container whose volume has *files* of a config map."""
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text)
    mounts = [cri.Mount(container_path="/config", host_path=str(directory))]
    return host.start(host.container(host.sandbox(uid), mounts=mounts))


@pytest.mark.parametrize("files", [{"one": "1", "other": "2"}, {"one": "1"}])
def test_volume_with_files_of_two_versions_is_a_violation(host, tmp_path, files):
    configured(host, "a", tmp_path / "complete", one="1", other="1")
    configured(host, "b", tmp_path / "empty")
    host.invariants.verify_mounts()
    assert host.violation == ""

    configured(host, "c", tmp_path / "torn", **files)
    host.invariants.verify_mounts()

    assert host.violation == f"/config of container web of pod c has files of two versions: {files}"


def test_call_of_the_volume_driver_in_the_wrong_order_is_a_violation(host):
    host.driver.violations.append("unstaged data-0 while mounted")

    host.invariants.verify_mounts()

    assert host.violation == "the volume driver was called in the wrong order: unstaged data-0 while mounted"


# --- restart policies


@pytest.mark.parametrize(
    ("policy", "code", "violation"),
    [
        ("Always", 0, ""),
        ("OnFailure", 1, ""),
        ("OnFailure", 0, "container web of pod a is restarted although it succeeded"),
        ("Never", 1, "container web of pod a is restarted although it must never be"),
    ],
)
def test_restart_contrary_to_the_policy_is_a_violation(host, policy, code, violation):
    host.add("a", policy=policy)
    sandbox = host.sandbox("a")

    host.end(host.start(host.container(sandbox)), code=code)
    host.start(host.container(sandbox))

    assert host.violation == violation


def test_restart_after_the_agent_stopped_the_container_is_permitted(host):
    host.add("a", policy="Never")
    container = host.start(host.container(host.sandbox("a")))
    container.signaled_at = 1.0

    host.end(container)
    host.start(host.container(container.sandbox))

    assert host.violation == ""


def test_init_containers_may_run_again(host):
    host.add("a", policy="Never")
    sandbox = host.sandbox("a")

    host.end(host.start(host.container(sandbox, "init-0")))
    host.start(host.container(sandbox, "init-0"))

    assert host.violation == ""


def test_restart_after_a_change_of_the_pod_is_permitted(host):
    host.add("a", policy="OnFailure")
    sandbox = host.sandbox("a")
    host.end(host.start(host.container(sandbox)))

    host.change("a", policy="OnFailure", container={"name": "web", "image": "new"})
    host.start(host.container(sandbox))

    assert host.violation == ""


def start_often(host, count):
    """Start a container that exits immediately, every ten seconds."""
    sandbox = host.sandbox("a")
    for _ in range(count):
        host.end(host.start(host.container(sandbox)), code=1)
        host.loop.now += 10


@pytest.mark.parametrize(("count", "permitted"), [(MOST_STARTS, True), (MOST_STARTS + 1, False)])
def test_starts_of_a_container_within_a_minute_are_limited(host, count, permitted):
    host.add("a")

    start_often(host, count)

    assert host.violation == ("" if permitted else "container web of pod a is started 6 times in 60 s")


def test_starts_are_not_limited_after_a_change_or_for_a_new_process(host):
    host.add("a")
    start_often(host, MOST_STARTS)
    host.process += 1
    host.runtime.sandboxes.clear()
    start_often(host, MOST_STARTS)
    host.runtime.sandboxes.clear()
    host.change("a", grace=3)

    start_often(host, MOST_STARTS)

    assert host.violation == ""


@pytest.mark.parametrize(("policy", "permitted"), [("Never", False), ("OnFailure", True)])
def test_failed_init_container_is_restarted_unless_it_must_never_be(host, policy, permitted):
    host.add("a", policy=policy)
    sandbox = host.sandbox("a")
    host.end(host.start(host.container(sandbox, "init-0")), code=1)

    host.start(host.container(sandbox, "init-0"))

    assert host.violation == ("" if permitted else "container init-0 of pod a is restarted although it failed")


# --- ends


def test_removal_of_a_running_container_is_a_violation(host):
    host.end(host.start(host.container(host.sandbox("a"))), "removed")

    assert host.violation == "container web of pod a is removed while it runs"


@pytest.mark.parametrize("cause", ["killed", "sandbox"])
def test_kill_before_the_end_of_the_grace_period_is_a_violation(host, cause):
    host.add("a", grace=30)
    container = host.start(host.container(host.sandbox("a")))
    host.loop.now, container.requested_at = 130.0, 101.0

    host.end(container, cause)

    expected = f"container web of pod a is killed ({cause}) 29.0 s after the stop request, its grace period is 30 s"
    assert host.violation == expected


def test_kill_without_a_stop_request_is_a_violation(host):
    host.loop.now = 1000.0

    host.end(host.start(host.container(host.sandbox("static"))), "killed")

    expected = "container web of pod static is killed (killed) 0.0 s after the stop request, its grace period is 5 s"
    assert host.violation == expected


def test_kill_at_the_end_of_the_grace_period_is_permitted(host):
    host.add("a", grace=30)
    container = host.start(host.container(host.sandbox("a")))
    host.loop.now, container.requested_at = 131.0, 101.0

    host.end(container, "killed")

    assert host.violation == ""


def test_deletion_with_a_shorter_grace_period_permits_an_earlier_kill(host):
    host.add("a", grace=30)
    host.change("a", grace=30, metadata={"deletionGracePeriodSeconds": 2})
    container = host.start(host.container(host.sandbox("a")))
    host.loop.now, container.requested_at = 104.0, 101.0

    host.end(container, "killed")

    assert host.violation == ""


@pytest.mark.parametrize(("now", "permitted"), [(130.0, True), (129.0, False)])
def test_grace_period_of_a_sidecar_starts_with_the_first_stop(host, now, permitted):
    host.add("a", grace=30, spec={"initContainers": [{"name": "sidecar", "restartPolicy": "Always"}]})
    sandbox = host.sandbox("a")
    sidecar, web = (host.start(host.container(sandbox, name)) for name in ("sidecar", "web"))
    web.requested_at, host.loop.now = 100.0, now

    host.end(sidecar, "sandbox")

    assert (host.violation == "") == permitted


def test_kill_of_a_pod_that_is_deleted_by_force_is_permitted(host):
    host.add("a")
    host.invariants.forced.add("a")

    host.end(host.start(host.container(host.sandbox("a"))), "killed")

    assert host.violation == ""


@pytest.mark.parametrize(("now", "permitted"), [(130.0, True), (129.0, False)])
def test_hook_is_part_of_the_grace_period(host, now, permitted):
    host.add("a", grace=30)
    container = host.start(host.container(host.sandbox("a")))
    container.hook_requested_at, container.requested_at, host.loop.now = 100.0, 120.0, now

    host.end(container, "killed")

    assert (host.violation == "") == permitted


@pytest.mark.parametrize(
    ("now", "jumped_at", "offset", "violation"),
    [
        (59.0, -inf, 0.0, ""),
        (58.9, -inf, 0.0, "the deadline of pod a is exceeded after 58.9 of 60 s"),
        (158.9, 90.0, -100.0, "the deadline of pod a is exceeded after 58.9 of 60 s"),
        (158.9, 98.9, -100.0, ""),
        (58.9, 50.0, 3600.0, ""),
    ],
)
def test_early_end_because_of_the_deadline_is_a_violation(host, now, jumped_at, offset, violation):
    spec = {"activeDeadlineSeconds": 60}
    host.add("a", spec=spec)
    host.loop.now, host.clock.jumped_at, host.clock.offset_seconds = now, jumped_at, offset

    host.change("a", spec=spec, phase="Failed", status={"reason": "DeadlineExceeded", "startTime": START})

    assert host.violation == violation


@pytest.mark.parametrize(("quota", "permitted"), [(100_000, True), (100_100, False)])
def test_limits_above_the_cpus_of_the_node_are_a_violation(host, quota, permitted):
    for uid, limit in (("a", 100_000), ("b", quota), ("c", 100_000)):
        host.add(uid)
        resources = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=limit)
        linux = cri.LinuxContainerConfig(resources=resources)
        host.start(host.container(host.sandbox(uid), linux=linux))
    host.invariants.forced.add("c")

    host.invariants.verify_limits()

    assert (host.violation == "") == permitted


def test_stop_of_a_sidecar_before_the_container_is_a_violation(host):
    host.add("a", spec={"initContainers": [{"name": "sidecar", "restartPolicy": "Always"}]}, container={"name": "main"})
    sandbox = host.sandbox("a")
    sidecar, main = (host.start(host.container(sandbox, name)) for name in ("sidecar", "main"))

    host.stop(sidecar)
    first, host.invariants.violation = host.violation, ""
    host.invariants.forced.add("a")
    host.stop(sidecar)

    assert first == "sidecar of pod a is stopped before main"
    assert host.violation == "", "sidecars of a pod deleted by force are unknown"
    assert main.running


RULES = [{"action": "Restart"}], [{"action": "RestartAllContainers"}]


@pytest.mark.parametrize(
    ("rules", "code", "violation"),
    [
        (RULES[0], 42, ""),
        (RULES[0], 0, "container web of pod a is restarted although no rule applies"),
        (RULES[1], 42, ""),
        (RULES[1], 1, "container web of pod a is restarted although no rule applies"),
    ],
)
def test_restart_without_an_applicable_rule_is_a_violation(host, rules, code, violation):
    host.add("a", container={"name": "web", "restartPolicyRules": rules})
    sandbox = host.sandbox("a")

    host.end(host.start(host.container(sandbox)), code=code)
    host.start(host.container(sandbox))

    assert host.violation == violation


def test_rule_permits_one_restart_of_each_container_within_seconds(host):
    host.add("a", policy="Never", container={"name": "web", "restartPolicyRules": RULES[1]}, other={"name": "db"})
    sandbox = host.sandbox("a")
    other = host.start(host.container(sandbox, "db"))
    host.end(host.start(host.container(sandbox)), code=42)
    other.requested_at = host.loop.now
    host.loop.now += 2.0

    host.end(other, "killed", 137)
    host.start(host.container(sandbox, "db"))
    assert host.violation == ""
    host.end(host.start(host.container(sandbox)), code=0)
    host.start(host.container(sandbox))

    assert host.violation == "container web of pod a is restarted although no rule applies"


def test_first_start_after_a_rule_restarts_all_is_not_a_restart(host):
    host.add("a", policy="Never", container={"name": "web", "restartPolicyRules": RULES[1]}, other={"name": "db"})
    sandbox = host.sandbox("a")
    for _ in range(2):
        host.end(host.start(host.container(sandbox)), code=42)
        host.end(host.start(host.container(sandbox, "db")), code=1)  # The agent may not have observed the exit.

    host.end(host.start(host.container(sandbox, "db")), code=1)
    assert host.violation == ""
    host.start(host.container(sandbox, "db"))

    assert host.violation == "container db of pod a is restarted although it must never be"


@pytest.mark.parametrize(("rules", "permitted"), [(RULES[0], False), (RULES[1], True)])
def test_changed_container_of_a_pod_with_a_rule_may_be_restarted_alone(host, rules, permitted):
    spec = {"initContainers": [{"name": "init"}]}
    container = {"name": "web", "restartPolicyRules": rules}
    host.add("a", spec=spec, container=container)
    host.change("a", spec=spec, container={**container, "image": "new"})

    host.start(host.container(host.sandbox("a")))

    assert (host.violation == "") == permitted


@pytest.mark.parametrize(("requested_at", "permitted"), [(98.9, False), (99.0, True), (150.0, True), (150.1, False)])
def test_kill_of_an_evicted_pod_is_permitted_after_a_second(host, requested_at, permitted):
    host.add("a", grace=30)
    host.invariants.pressures.append((100.0, 120.0))
    container = host.start(host.container(host.sandbox("a")))
    container.requested_at, host.loop.now = requested_at, requested_at + 1.0

    host.end(container, "killed")

    assert (host.violation == "") == permitted


@pytest.mark.parametrize(("requested_at", "permitted"), [(150.0, True), (240.0, True), (240.1, False), (400.0, False)])
def test_evicted_pod_is_stopped_later_because_of_successive_faults(host, requested_at, permitted):
    host.add("a", grace=30)
    host.invariants.pressures.append((100.0, 120.0))
    host.invariants.delays += [(90.0, 180.0), (200.0, 210.0), (205.0, 206.0), (300.0, 500.0)]
    container = host.start(host.container(host.sandbox("a")))
    container.requested_at, host.loop.now = requested_at, requested_at + 1.0

    host.end(container, "killed")

    assert (host.violation == "") == permitted


def test_end_of_a_container_that_starts_in_the_stop_of_a_sandbox(host):
    host.add("a")
    container = host.start(host.container(host.sandbox("a")))
    container.outlasted = True

    host.end(container, "sandbox")

    assert host.violation == ""


def test_end_of_a_sandbox_whose_stop_outlived_the_agent_is_permitted(host):
    host.add("a")
    container = host.start(host.container(host.sandbox("a")))
    container.sandbox.stop_outlived_client = True

    host.end(container, "sandbox")

    assert host.violation == ""


@pytest.mark.parametrize("cause", ["exit", "stopped", "power"])
def test_container_may_exit_at_any_time(host, cause):
    host.add("a")

    host.end(host.start(host.container(host.sandbox("a"))), cause)

    assert host.violation == ""


@pytest.mark.parametrize(("now", "known", "permitted"), [(119.9, "a", False), (120.0, "a", True), (110.0, "b", True)])
def test_shutdown_while_containers_run_is_a_violation(host, now, known, permitted):
    host.start(host.container(host.sandbox("a")))
    host.agent = SimpleNamespace(
        context=SimpleNamespace(pods=SimpleNamespace(all=lambda: [SimpleNamespace(uid=known)]))
    )
    host.loop.now = now

    host.invariants.verify_shut_down(100.0)

    assert host.violation == ("" if permitted else "the node shuts down while the containers ['web of pod a'] run")


@pytest.mark.parametrize(("shutdowns", "permitted"), [([101.0], True), ([], False), ([41.0], True), ([40.9], False)])
def test_shutdown_shortens_the_grace_period(host, shutdowns, permitted):
    host.add("a", grace=30)
    container = host.start(host.container(host.sandbox("a")))
    container.requested_at, host.loop.now, host.invariants.shutdowns = 101.0, 121.0, shutdowns

    host.end(container, "killed")

    assert (host.violation == "") == permitted


def test_container_that_exits_during_its_hook_may_be_restarted(host):
    host.add("a", policy="OnFailure")
    sandbox = host.sandbox("a")
    container = host.start(host.container(sandbox))
    container.hook_requested_at = 1.0
    host.end(container)

    host.start(host.container(sandbox))

    assert host.violation == ""


# --- information of the agent


@pytest.mark.parametrize("informed", ["watch", "list"])
def test_start_for_a_pod_that_the_agent_knows_to_be_deleted_is_a_violation(host, informed):
    host.add("a")
    container = host.container(host.sandbox("a"))
    if informed == "watch":
        host.invariants.delivered("DELETED", api_pod("a"))
    else:
        host.invariants.listed(host.invariants.listing(set()))
    host.loop.now = 2.0
    host.request("RunPodSandbox", uid="a")
    host.request("StartContainer", container=container.id)
    assert host.violation == "", "the agent has two seconds to act on it"

    host.loop.now = 2.1
    host.request("RunPodSandbox", uid="a")
    assert host.violation == "a sandbox of pod a is started although the agent was informed of its deletion"

    host.invariants.violation = ""
    host.request("StartContainer", container=container.id)
    assert host.violation == "container web of pod a is started although the agent was informed of its deletion"


def test_start_for_other_pods_is_permitted(host):
    host.add("a")
    host.add("b")
    host.invariants.delivered("MODIFIED", api_pod("b"))
    host.invariants.listed(host.invariants.listing({"b"}))
    host.loop.now = 100.0

    host.request("RunPodSandbox", uid="b")
    host.request("StartContainer", container="unknown")

    assert host.violation == ""


def test_start_for_a_finished_pod_is_a_violation(host):
    host.add("a", phase="Succeeded")

    host.request("RunPodSandbox", uid="a")

    assert host.violation == "a sandbox of pod a is started after the pod had finished"


# --- objects


def test_deletion_of_a_pod_whose_containers_run_is_a_violation(host):
    host.add("a")
    host.start(host.container(host.sandbox("a")))

    host.delete("a")

    assert host.violation == "pod a is deleted while its containers ['c0'] run"


def test_deletion_by_force_or_after_the_containers_ended_is_permitted(host):
    host.add("a")
    host.add("b")
    host.invariants.forced.add("a")
    host.start(host.container(host.sandbox("a")))
    host.end(host.start(host.container(host.sandbox("b"))))

    host.delete("a")
    host.delete("b")

    assert host.violation == ""


def test_end_of_a_mirror_pod_is_permitted_while_the_static_pod_runs(host):
    host.add("mirror", mirror_of="hash")
    host.start(host.container(host.sandbox("hash")))
    host.invariants.listed(host.invariants.listing({"mirror"}))
    host.loop.now = 100.0
    host.request("RunPodSandbox", uid="hash")

    host.delete("mirror")

    assert host.violation == ""


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_change_of_a_final_phase_is_a_violation(host, phase):
    host.add("a", phase="Running")
    host.change("a", phase=phase)
    host.change("a", phase=phase)
    assert host.violation == ""

    host.change("a", phase="Running")

    assert host.violation == f"pod a changes from phase {phase} to Running"


def test_decreasing_restart_count_is_a_violation(host):
    host.add("a", restarts=1)
    host.change("a", restarts=3)
    host.change("a", restarts=3)
    assert host.violation == ""

    host.change("a", restarts=2)

    assert host.violation == "restart count of ('a', 'web') decreases from 3 to 2"


def test_first_violation_is_recorded(host):
    host.invariants.violate("first")
    host.invariants.violate("second")

    assert host.violation == "first"


# --- records


def test_records_of_deleted_pods_are_forgotten_except_for_the_latest(host):
    for uid in ("a", "b", "c"):
        host.add(uid, policy="Never", restarts=2, phase="Succeeded")
        host.end(host.start(host.container(host.sandbox(uid))))
    host.runtime.sandboxes.clear()
    host.delete("a")
    host.delete("b")

    host.invariants.forget(1)

    assert host.invariants.listing(set()) == {"b", "c"}
    host.request("RunPodSandbox", uid="a")
    assert host.violation == "", "nothing is known about the pod"
    host.request("RunPodSandbox", uid="b")
    assert host.violation == "a sandbox of pod b is started after the pod had finished"


@pytest.mark.parametrize("now", [129.0, 131.0])
def test_sidecar_without_a_stop_has_the_grace_period_of_the_containers(host, now):
    host.add("a", grace=30, spec={"initContainers": [{"name": "sidecar", "restartPolicy": "Always"}]})
    sandbox = host.sandbox("a")
    sidecar, web = (host.start(host.container(sandbox, name)) for name in ("sidecar", "web"))
    web.requested_at, host.loop.now = 100.0, now

    host.end(sidecar, "killed")

    assert (host.violation == "") == (now == 131.0)


def test_permitted_restart_of_an_existing_pod_is_not_forgotten(host):
    rules = [{"action": "RestartAllContainers"}]
    host.add("a", policy="Never", container={"name": "main", "restartPolicyRules": rules}, other={"name": "web"})
    sandbox = host.sandbox("a")
    main, web = (host.start(host.container(sandbox, name)) for name in ("main", "web"))
    host.end(web, code=1)
    host.end(main, code=RULE_CODE)

    host.invariants.forget(50)
    host.start(host.container(sandbox, "web"))

    assert host.violation == ""


@pytest.mark.parametrize("now", [129.0, 130.0])
def test_sidecar_in_a_stopped_sandbox_has_the_time_since_the_first_stop(host, now):
    host.add("a", grace=30, spec={"initContainers": [{"name": "sidecar", "restartPolicy": "Always"}]})
    sandbox = host.sandbox("a")
    sidecar, web = (host.start(host.container(sandbox, name)) for name in ("sidecar", "web"))
    web.requested_at, sidecar.requested_at, host.loop.now = 100.0, 120.0, now

    host.end(sidecar, "sandbox")

    assert (host.violation == "") == (now == 130.0)


@pytest.mark.parametrize("now", [128.0, 129.0])
def test_sidecar_has_the_rest_of_the_grace_period(host, now):
    host.add("a", grace=30, spec={"initContainers": [{"name": "sidecar", "restartPolicy": "Always"}]})
    sandbox = host.sandbox("a")
    sidecar, web = (host.start(host.container(sandbox, name)) for name in ("sidecar", "web"))
    web.requested_at, sidecar.requested_at, host.loop.now = 100.0, 120.0, now

    host.end(sidecar, "killed")

    assert (host.violation == "") == (now == 129.0)


def test_stop_of_an_unknown_or_ended_container_is_permitted(host):
    host.add("a", spec={"initContainers": [{"name": "sidecar", "restartPolicy": "Always"}]})
    sandbox = host.sandbox("a")
    sidecar, main = (host.start(host.container(sandbox, name)) for name in ("sidecar", "main"))
    host.end(sidecar)

    host.stop(sidecar)
    host.stop(SimpleNamespace(id="unknown"))

    assert host.violation == "" and main.running


def test_probe_before_the_startup_probe_has_succeeded_is_a_violation(host):
    host.add("a", container={"name": "web", "startupProbe": {}})
    host.add("b")
    web, other = (host.start(host.container(host.sandbox(uid))) for uid in "ab")
    host.invariants.probed(other)
    assert host.violation == ""

    host.invariants.probed(web)

    assert host.violation == "web of pod a is probed before its startup probe has succeeded"


def test_restart_counts_of_retained_pods_are_remembered(host):
    for uid in "abc":
        host.add(uid)
        host.change(uid, restarts=3)
    host.delete("a")
    host.delete("b")
    host.invariants.forget(1)

    violations = {}
    for uid in "abc":
        host._notify("MODIFIED", api_pod(uid, restarts=1), api_pod(uid, restarts=3))
        violations[uid], host.invariants.violation = host.violation, ""

    text = "restart count of ('{}', 'web') decreases from 3 to 1"
    assert violations == {"a": "", "b": text.format("b"), "c": text.format("c")}


# --- pressure


@pytest.fixture
def small(tmp_path):
    """A node whose resources can run low."""
    (tmp_path / "small").mkdir()
    return Host(tmp_path / "small", has_pressure=True)


def test_removals_of_images_are_verified_on_a_node_with_pressure(host, small):
    for each in (host, small):
        each.pull("old")
        each.loop.now = 200.0
        each.remove_image("old")

    assert host.violation == ""
    assert small.violation == "image old is removed although its disk is not full"


def test_stops_of_evicted_pods_are_verified(small):
    small.add("a")
    container = small.start(small.container(small.sandbox("a")))
    small.leave(100)
    small.stop(SimpleNamespace(id="unknown"))
    small.stop(container, 60)
    assert small.violation == ""

    small.evict("a")
    small.stop(container, 60)

    assert small.violation == "the evicted pod a has 60 s to end instead of 2 s"


def test_conditions_are_verified_on_a_node_with_pressure(host, small):
    for each in (host, small):
        each.report(ready="True", pressures={"MemoryPressure": "True"})

    assert host.violation == ""
    assert small.violation == "the node reports MemoryPressure without pressure"


def test_lasting_pressure_and_evicted_pods_are_verified(host, small):
    small.loop.now = 200.0
    small.leave(600)
    small.loop.now += 60
    for each in (host, small):
        each.invariants.verify_pressure()
        each.invariants.verify_evicted()
    assert host.violation == ""
    assert small.violation == "the node does not report MemoryPressure, although it lasts for 60 s"

    small.invariants.violation = ""
    small.add("a", phase="Running")
    small.evict("a")
    small.invariants.verify_evicted()

    assert small.violation == "the evicted pod a has the phase Running"


def test_end_of_a_pod_is_verified_once(small):
    small.add("a")

    small.change("a", phase="Failed", status={"reason": "Evicted"})
    first, small.invariants.violation = small.violation, ""
    small.change("a", phase="Failed", status={"reason": "Evicted", "message": "x"})

    assert first == "pod a is reported as evicted, but it was not"
    assert small.violation == ""
