"""Tests for the invariants of evictions: each violation is recorded, permitted evictions are not."""

import pytest

from nodeagent.contracts.stats import NodeUsage
from nodeagent.simulation.disks import IMAGEFS, NODEFS
from nodeagent.simulation.evictions import CRITICAL_PRIORITY, PIDS, TRANSITION_SECONDS
from nodeagent.simulation.node import MAX_PIDS

from .host import Host


@pytest.fixture
def host(tmp_path):
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    return Host(manifests, has_pressure=True)


def requesting(amount):
    return {"container": {"name": "web", "resources": {"requests": {"memory": amount}}}}


def low_since(host, seconds, available=100):
    """Leave an amount of memory in MiB for some time until now."""
    host.leave(available)
    host.loop.now += seconds


# --- reasons


@pytest.mark.parametrize(
    ("available", "lasted", "recovered", "violation"),
    [
        (499, 0, 0, ""),
        (500, 5, 0, "pod a is evicted because of memory.available without pressure"),
        (499, 5, 11, ""),
        (499, 5, 12, "pod a is evicted because of memory.available without pressure"),
        (999, 20, 0, ""),
        (999, 19, 0, "pod a is evicted because of memory.available without pressure"),
        (1000, 60, 0, "pod a is evicted because of memory.available without pressure"),
    ],
)
def test_pod_is_evicted_only_during_or_shortly_after_pressure(host, available, lasted, recovered, violation):
    host.add("a")
    low_since(host, lasted, available)
    if recovered:
        low_since(host, recovered, 4000)

    host.evict("a")

    assert host.violation == violation


def test_short_recovery_does_not_restart_the_time_of_the_soft_threshold(host):
    host.add("a")
    low_since(host, 15, 999)
    low_since(host, 9, 1000)
    low_since(host, 5, 999)

    host.evict("a")

    assert host.violation == ""


def test_pod_is_evicted_because_of_process_ids_only_while_few_are_left(host):
    host.add("a")
    host.leave(100)

    host.evict("a", "pid.available")

    assert host.violation == "pod a is evicted because of pid.available without pressure"


# --- order


def test_critical_pod_must_not_be_evicted(host):
    host.add("a", spec={"priority": CRITICAL_PRIORITY})
    host.leave(100)

    host.evict("a")

    assert host.violation == "pod a is evicted because of memory.available although it is static or critical"


def test_static_pod_must_not_be_evicted(host):
    host.add("mirror", mirror_of="hash")
    host.leave(100)

    host.evict("hash")

    assert host.violation == "pod hash is evicted because of memory.available although it is static or critical"


@pytest.mark.parametrize(
    ("first", "second", "used"),
    [
        ({}, requesting("64Mi"), {"a": 10, "b": 64}),
        ({"spec": {"priority": 10}}, requesting("64Mi"), {"a": 10, "b": 60}),
        ({}, {"spec": {"priority": 10}}, {"a": 10, "b": 90}),
        ({}, {}, {"a": 90, "b": 80}),
        ({}, requesting("64Mi"), {"a": 80, "b": 130}),
        ({"spec": {"priority": 10}}, requesting("64Mi"), {"a": 10, "b": 64}),
        ({"spec": {"priority": 10}}, {}, {"b": 80}),
    ],
    ids=[
        "exceeds its request",
        "request before priority",
        "priority",
        "usage",
        "usage above the request",
        "usage at the request",
        "unknown",
    ],
)
def test_pods_are_evicted_in_the_documented_order(host, first, second, used):
    host.add("a", **first)
    host.add("b", **second)
    host.measure(**used)
    host.leave(100)

    host.evict("a")
    assert host.violation == ""

    host.finish("a", "Failed")
    other = Host(host.manifests, has_pressure=True)
    other.add("a", **first)
    other.add("b", **second)
    other.measure(**used)
    other.leave(100)
    other.evict("b")
    assert other.violation == "pod b is evicted because of memory.available instead of pod a"


def test_pods_that_have_ended_or_are_critical_or_evicted_are_no_candidates(host):
    for name in ("ended", "evicted"):
        host.add(name)
    host.add("last", **requesting("64Mi"))
    host.add("critical", spec={"priority": CRITICAL_PRIORITY})
    host.measure(ended=90, evicted=80, critical=90, last=10)
    host.finish("ended", "Succeeded")
    host.leave(100)

    host.evict("evicted")
    host.evict("last")

    assert host.violation == ""


@pytest.mark.parametrize("signal", [NODEFS, IMAGEFS])
@pytest.mark.parametrize(
    ("available", "lasted", "recovered", "violation"),
    [(9.9, 0, 0, False), (9.9, 1, 31, False), (9.9, 1, 32, True), (10, 60, 0, True)],
)
def test_pod_is_evicted_only_during_or_shortly_after_pressure_of_a_disk(
    host, signal, available, lasted, recovered, violation
):
    host.add("a")
    host.loop.now = 100.0
    host.leave_disk(signal, available)
    host.loop.now += lasted
    if recovered:
        host.leave_disk(signal, 50)
        host.loop.now += recovered

    host.evict("a", signal)

    assert host.violation == (f"pod a is evicted because of {signal} without pressure" if violation else "")


@pytest.mark.parametrize(
    ("signal", "separate", "files"),
    [
        (NODEFS, True, {"a": (20, 0), "b": (10, 90)}),
        (IMAGEFS, True, {"a": (0, 20), "b": (90, 10)}),
        (NODEFS, False, {"a": (10, 15), "b": (20, 0)}),
        (IMAGEFS, False, {"a": (10, 15), "b": (20, 0)}),
    ],
)
def test_pod_with_most_files_on_the_disk_is_evicted_first(host, signal, separate, files):
    host.disks.are_separate = separate
    for uid in files:
        host.add(uid)
    host.measure_files(**files)
    host.leave_disk(signal, 5)

    host.evict("b", signal)

    assert host.violation == f"pod b is evicted because of {signal} instead of pod a"


@pytest.mark.parametrize(
    ("signal", "separate", "violation"),
    [
        (IMAGEFS, True, "pod a is evicted because of imagefs.available instead of the images ['old']"),
        (NODEFS, False, "pod a is evicted because of nodefs.available instead of the images ['old']"),
        (NODEFS, True, ""),
    ],
)
def test_unused_images_are_removed_instead_of_pods(host, signal, separate, violation):
    host.disks.are_separate = separate
    host.add("a", container={"name": "web", "image": "used"})
    host.pull("old", "used")
    host.loop.now = 500.0
    host.pull("new")
    host.leave_disk(signal, 5)

    host.evict("a", signal)

    assert host.violation == violation


# --- grace periods and the end


@pytest.mark.parametrize(("available", "lasted", "timeout"), [(100, 5, 2), (600, 20, 5)])
def test_evicted_pod_has_the_grace_period_of_the_threshold(host, available, lasted, timeout):
    host.add("a")
    container = host.start(host.container(host.sandbox("a")))
    low_since(host, lasted, available)
    host.evict("a")
    host.stop(container, timeout)
    assert host.violation == ""

    host.stop(container, timeout + 1)

    assert host.violation == f"the evicted pod a has {timeout + 1} s to end instead of {timeout} s"


def test_container_is_killed_after_the_grace_period_of_the_soft_threshold(host):
    host.add("a")
    container = host.start(host.container(host.sandbox("a")))
    low_since(host, 20, 600)
    host.evict("a")
    container.requested_at, host.loop.now = 20.0, 24.0

    host.end(container, "killed")

    expected = "container web of pod a is killed (killed) 4.0 s after the stop request, its grace period is 5 s"
    assert host.violation == expected


@pytest.mark.parametrize(
    ("phase", "reason", "violation"),
    [
        ("Failed", "Evicted", ""),
        ("Failed", "Terminated", ""),
        ("Failed", "", "the evicted pod a ends in phase Failed with reason ''"),
        ("Succeeded", "Evicted", "the evicted pod a has the phase Succeeded"),
    ],
)
def test_evicted_pod_fails_with_this_reason(host, phase, reason, violation):
    host.add("a")
    host.leave(100)
    host.evict("a")

    host.change("a", phase=phase, status={"reason": reason})

    assert host.violation == violation


def test_pod_is_reported_as_evicted_only_if_it_was(host):
    host.add("a")

    host.change("a", phase="Failed", status={"reason": "Evicted"})

    assert host.violation == "pod a is reported as evicted, but it was not"


@pytest.mark.parametrize(("process", "violation"), [(1, "the evicted pod a has the phase Running"), (2, "")])
def test_evicted_pod_has_to_end_unless_the_agent_crashes(host, process, violation):
    host.add("a", phase="Running")
    host.leave(100)
    host.evict("a")
    host.process = process

    host.invariants.verify_evicted()

    assert host.violation == violation


# --- admission


@pytest.mark.parametrize(
    ("available", "pod", "violation"),
    [
        (600, {}, ""),
        (4000, {}, "pod a is rejected although no pressure affects it"),
        (600, requesting("64Mi"), "pod a is rejected although no pressure affects it"),
        (600, {"spec": {"priority": CRITICAL_PRIORITY}}, "pod a is rejected although no pressure affects it"),
    ],
)
def test_pod_is_rejected_only_because_of_pressure_that_affects_it(host, available, pod, violation):
    low_since(host, 5, available)
    host.leave(4000)
    host.loop.now += TRANSITION_SECONDS
    host.add("a", **pod)

    rejected = {"reason": "Evicted", "message": "The node had condition: [MemoryPressure]. "}
    host.change("a", **pod, phase="Failed", status=rejected)

    assert host.violation == violation


# --- conditions


def test_node_reports_pressure_only_if_there_was_one(host):
    host.report(ready="True", pressures={"MemoryPressure": "True"})

    assert host.violation == "the node reports MemoryPressure without pressure"


@pytest.mark.parametrize("signal", [NODEFS, IMAGEFS])
def test_pressure_of_a_disk_is_reported(host, signal):
    host.loop.now = 200.0
    host.leave_disk(signal, 5)
    host.loop.now += 60

    host.invariants.verify_pressure()

    assert host.violation == "the node does not report DiskPressure, although it lasts for 60 s"


@pytest.mark.parametrize("signal", [NODEFS, IMAGEFS])
def test_condition_of_a_disk_is_reported_with_pressure(host, signal):
    host.leave_disk(signal, 5)
    host.report(ready="True", pressures={"DiskPressure": "True"})
    assert host.violation == ""


@pytest.mark.parametrize(
    ("restarted", "passed", "violation"),
    [
        (0, 288, "the node stops to report MemoryPressure within the transition period"),
        (0, 290, ""),
        (35, 288, ""),
    ],
)
def test_condition_remains_for_the_transition_period_without_a_restart(host, restarted, passed, violation):
    host.loop.now = 40.0
    low_since(host, 20, 600)
    host.leave(4000)
    host.report(ready="True", pressures={"MemoryPressure": "True"})
    assert host.violation == ""
    host.loop.now += passed
    host.started_at = float(restarted)

    host.report(ready="True")

    assert host.violation == violation


@pytest.mark.parametrize(
    ("passed", "violation"),
    [(288, "the node stops to report MemoryPressure within the transition period"), (290, "")],
)
def test_condition_remains_for_the_transition_period_after_an_eviction(host, passed, violation):
    host.loop.now = 40.0
    host.add("a")
    host.leave(100)
    host.evict("a")
    host.leave(4000)
    host.report(ready="True", pressures={"MemoryPressure": "True"})
    host.loop.now += passed

    host.report(ready="True")

    assert host.violation == violation


@pytest.mark.parametrize(
    ("lasted", "silent", "violation"),
    [
        (59, False, ""),
        (60, False, "the node does not report MemoryPressure, although it lasts for 60 s"),
        (60, True, ""),
    ],
)
def test_lasting_pressure_is_reported_if_the_api_server_is_reachable(host, lasted, silent, violation):
    host.loop.now = 200.0
    low_since(host, lasted, 600)
    host.network.silent = silent

    host.invariants.verify_pressure()

    assert host.violation == violation


def test_pod_without_usage_is_evicted_first_for_process_ids(host):
    for uid, priority in (("known", 0), ("unknown", 0), ("important", 10)):
        host.add(uid, spec={"priority": priority})
    host.measure(known=1)

    def rank(uid):
        return host.invariants._evictions._rank(uid, PIDS)

    assert sorted(("important", "known", "unknown"), key=rank) == ["unknown", "known", "important"]


@pytest.mark.parametrize(
    ("left", "violation"), [(-1, ""), (0, "pod a is evicted because of pid.available without pressure")]
)
def test_pod_is_evicted_because_of_few_process_ids(host, left, violation):
    host.add("a")
    used = MAX_PIDS - MAX_PIDS // 10 - left
    host.host.stats.node_usage = NodeUsage(start_time=0, max_pids=MAX_PIDS, current_pids=used)
    host.leave(4000)

    host.evict("a", "pid.available")

    assert host.violation == violation


@pytest.mark.parametrize("reason", ["none", "crashed", "terminating"])
def test_pod_that_this_agent_did_not_evict_may_end_in_any_way(host, reason):
    host.add("a", metadata={"deletionTimestamp": "2040-01-01T00:00:00Z"} if reason == "terminating" else {})
    container = host.start(host.container(host.sandbox("a")))
    host.leave(100)
    if reason != "none":
        host.evict("a")
    if reason == "crashed":
        host.process = 2

    host.stop(container, 60)
    host.change("a", phase="Failed", status={"reason": ""})

    assert host.violation == ""


@pytest.mark.parametrize(
    ("policy", "ends", "violation"),
    [
        ("Never", ["main-0", "main-1"], ""),
        ("OnFailure", ["main-0", "main-1"], ""),
        ("Never", ["main-0"], "the evicted pod a ends in phase Failed with reason ''"),
        ("Always", ["main-0", "main-1"], "the evicted pod a ends in phase Failed with reason ''"),
    ],
)
def test_pod_that_had_ended_before_its_eviction_keeps_its_status(host, policy, ends, violation):
    host.add("a", policy=policy)
    sandbox = host.sandbox("a")
    for name in ("main-0", "main-1", "debug-0"):
        container = host.start(host.container(sandbox, name))
        if name in ends:
            host.end(container)
    host.leave(100)
    host.evict("a")

    host.change("a", policy=policy, phase="Failed", status={"reason": ""})

    assert host.violation == violation


def test_records_of_existing_pods_are_not_forgotten(host):
    for uid in "abc":
        host.add(uid)
    host.leave(100)
    host.evict("a")
    host.leave(4000)
    host.loop.now += 1000

    host.invariants.forget(50)
    rejected = {"reason": "Evicted", "message": "The node had condition: [MemoryPressure]. "}
    host.change("b", phase="Failed", status=rejected)
    assert host.violation == "", "there was pressure when the pod was added"
    host.leave(100)
    host.evict("c")
    assert host.violation == ""

    host.change("a", phase="Failed", status={"reason": ""})

    assert host.violation == "the evicted pod a ends in phase Failed with reason ''"
