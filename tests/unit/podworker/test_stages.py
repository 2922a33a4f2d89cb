"""Tests for the stages of a pod: state, reason and detail of each stage, by the inputs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from nodeagent.contracts.diagnostics import Stage, StageReport, StageState
from nodeagent.contracts.events import EventType
from nodeagent.contracts.persistent_volumes import VolumeState
from nodeagent.contracts.pods import KillReason
from nodeagent.contracts.runtime import ContainerState as RuntimeState
from nodeagent.contracts.runtime import RuntimeContainerStatus, RuntimePod, SandboxStatus
from nodeagent.event_journal import JournalEntry
from nodeagent.model.pod import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
)
from nodeagent.podworker.stages import MAX_MESSAGE_CHARACTERS, PodDiagnosticInputs, blocking, stages_of
from nodeagent.podworker.state import Phase, Termination, WorkerSnapshot
from nodeagent.testing import make_container, make_pod

NOW = datetime(2024, 1, 1, tzinfo=UTC)
SYNCING = WorkerSnapshot(phase=Phase.SYNC)
MOUNTED = {"volume_mounts": [{"name": "data", "mountPath": "/data"}]}
DATA = [{"name": "data", "emptyDir": {}}]


def stages(pod: Pod | None = None, **inputs: Any) -> dict[Stage, StageReport]:
    """Return the stages of a pod whose worker syncs, by name."""
    fields = {"pod": pod or make_pod(), "observed": None, "worker": SYNCING, "now": NOW, **inputs}
    return {report.stage: report for report in stages_of(PodDiagnosticInputs(**fields))}


def running(**fields: Any) -> ContainerStatus:
    return ContainerStatus(name="main", state=ContainerState(running=ContainerStateRunning(NOW)), **fields)


def waiting(reason: str, message: str = "", name: str = "main", **fields: Any) -> ContainerStatus:
    return ContainerStatus(name=name, state=ContainerState(waiting=ContainerStateWaiting(reason, message)), **fields)


def exited(code: int, message: str = "", reason: str = "Error") -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(code, reason=reason, message=message))


def with_status(*statuses: ContainerStatus, pod: Pod | None = None, **fields: Any) -> Pod:
    status = PodStatus(phase="Running", container_statuses=list(statuses), **fields)
    return msgspec.structs.replace(pod or make_pod(), status=status)


def event(reason: str, note: str = "", field_path: str = "", count: int = 1) -> JournalEntry:
    return JournalEntry(EventType.WARNING, reason, note, field_path, NOW, NOW + timedelta(seconds=9), count)


def sandbox(*, ready: bool = True, ips: tuple[str, ...] = (), created_at: int = 10**9) -> SandboxStatus:
    return SandboxStatus(
        id="s", name="web", uid="uid-web", namespace="default", attempt=0, ready=ready, created_at=created_at, ips=ips
    )


def observed(*sandboxes: SandboxStatus, **containers: RuntimeState) -> RuntimePod:
    found = [
        RuntimeContainerStatus(
            id=name,
            name=name,
            attempt=0,
            state=state,
            created_at=10**9,
            started_at=0,
            finished_at=0,
            exit_code=0,
            image="i",
            image_ref="i",
        )
        for name, state in containers.items()
    ]
    return RuntimePod("uid-web", "web", "default", sandboxes=list(sandboxes), containers=found)


def volume(phase: str = "Mounting", **fields: Any) -> VolumeState:
    return VolumeState("uid-web", "data", "data", "csi", "csi.example.com", phase, **fields)


# --- volumes --------------------------------------------------------------------------------------------------


def mounting_pod() -> Pod:
    return make_pod(containers=[make_container(**MOUNTED)], volumes=DATA)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (volume(claim="db"), (StageState.WORKING, "", "data (claim db, csi.example.com): Mounting")),
        (volume(error="boom"), (StageState.BLOCKED, "FailedMount", "data (csi.example.com): Mounting, boom")),
        (volume(), (StageState.WORKING, "", "1 to set up")),
        (volume("Mounted", claim="db"), (StageState.DONE, "", "1 mounted")),
        (volume("Mounted", error="boom"), (StageState.DONE, "", "1 mounted")),
    ],
)
def test_volume_is_reported_if_it_has_a_claim_or_failed(
    state: VolumeState, expected: tuple[StageState, str, str]
) -> None:
    report = stages(mounting_pod(), volumes=[state])[Stage.VOLUMES]

    assert (report.state, report.reason, report.detail) == expected


def test_failed_volume_has_reason_and_time_of_its_event() -> None:
    journal = [event("FailedMapVolume"), event("Pulled")]

    report = stages(mounting_pod(), volumes=[volume(error="boom")], journal=journal)[Stage.VOLUMES]
    working = stages(mounting_pod(), volumes=[volume(claim="db")], journal=journal)[Stage.VOLUMES]

    assert (report.reason, report.at) == ("FailedMapVolume", NOW)
    assert (working.reason, working.at) == ("", None)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"call": "NodeStageVolume", "running_since": 5.0}, "Mounting, NodeStageVolume for 7 s"),
        ({"call": "NodeStageVolume", "error": "boom"}, "Mounting, NodeStageVolume failed: boom"),
        (
            {"call": "NodeStageVolume", "error": "boom", "running_since": 5.0},
            "Mounting, NodeStageVolume for 7 s, last error: boom",
        ),
        ({"error": "boom", "next_attempt": 20.0}, "Mounting, boom, next attempt in 8 s"),
        ({"error": "boom", "next_attempt": 2.0}, "Mounting, boom, next attempt in 0 s"),
    ],
)
def test_volume_text_has_call_error_and_next_attempt(fields: dict[str, Any], text: str) -> None:
    report = stages(mounting_pod(), volumes=[volume(claim="db", **fields)], monotonic=12.0)[Stage.VOLUMES]

    assert report.detail == f"data (claim db, csi.example.com): {text}"


def test_volume_without_claim_and_driver_has_only_its_name() -> None:
    state = VolumeState("uid-web", "data", "data", "empty", "", "Mounting", error="boom")

    assert stages(mounting_pod(), volumes=[state])[Stage.VOLUMES].detail == "data: Mounting, boom"


def test_volumes_that_no_container_uses_are_not_awaited() -> None:
    report = stages(make_pod(volumes=DATA))[Stage.VOLUMES]

    assert (report.state, report.detail) == (StageState.DONE, "no volumes mounted")


def test_block_device_is_a_volume_to_set_up() -> None:
    device = make_container(volume_devices=[{"name": "data", "devicePath": "/dev/x"}])

    assert stages(make_pod(containers=[device], volumes=DATA))[Stage.VOLUMES].detail == "1 to set up"


def test_volumes_are_mounted_once_a_sandbox_exists() -> None:
    report = stages(mounting_pod(), observed=observed(sandbox(ready=False, created_at=NOW.second + 10**9)))

    assert (report[Stage.VOLUMES].state, report[Stage.VOLUMES].detail) == (StageState.DONE, "1 mounted")
    assert report[Stage.VOLUMES].at == datetime.fromtimestamp(1, UTC)


# --- sandbox --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ips", "text"), [(("192.0.2.7",), "address 192.0.2.7"), ((), "host network")])
def test_ready_sandbox_has_an_address_or_the_host_network(ips: tuple[str, ...], text: str) -> None:
    report = stages(observed=observed(sandbox(ips=ips)))[Stage.SANDBOX]

    assert (report.state, report.detail, report.at) == (StageState.DONE, text, datetime.fromtimestamp(1, UTC))


@pytest.mark.parametrize(
    ("worker", "journal", "expected"),
    [
        (
            {"error": "no answer", "reason": "RuntimeUnavailable"},
            ["FailedCreatePodSandBox"],
            (StageState.BLOCKED, "RuntimeUnavailable", "no answer"),
        ),
        (
            {"error": "exists", "reason": "RuntimeFailure"},
            ["FailedCreatePodSandBox"],
            (StageState.BLOCKED, "FailedCreatePodSandBox", "exists"),
        ),
        ({"error": "exists", "reason": "RuntimeFailure"}, [], (StageState.BLOCKED, "RuntimeFailure", "exists")),
        ({"network_problem": "no CNI"}, [], (StageState.BLOCKED, "NetworkNotReady", "no CNI")),
        ({}, [], (StageState.WORKING, "", "to be created")),
    ],
)
def test_missing_sandbox_has_the_error_of_the_worker(
    worker: dict[str, Any], journal: list[str], expected: tuple[StageState, str, str]
) -> None:
    snapshot = WorkerSnapshot(phase=Phase.SYNC, **worker)

    report = stages(worker=snapshot, journal=[event(reason) for reason in journal])[Stage.SANDBOX]

    assert (report.state, report.reason, report.detail) == expected
    assert report.at == (NOW if journal else None)


def test_sandbox_that_is_being_created_has_the_duration() -> None:
    assert stages(working_seconds=0.0)[Stage.SANDBOX].detail == "creating for 0 s"


# --- pull -----------------------------------------------------------------------------------------------------


def test_failed_pulls_list_all_containers_and_the_event_of_the_first() -> None:
    pod = make_pod(containers=["main", "other"])
    journal = [
        event("Failed", field_path="spec.containers{other}"),
        event("Failed", field_path="spec.containers{main}"),
    ]
    statuses = (waiting("ErrImagePull", "not found"), waiting("ImagePullBackOff", name="other"))

    report = stages(with_status(*statuses, pod=pod), journal=journal[1:])[Stage.PULL]
    of_other = stages(with_status(*statuses, pod=pod), journal=journal[:1])[Stage.PULL]

    assert (report.state, report.reason, report.detail) == (StageState.BLOCKED, "ErrImagePull", "not found")
    assert list(report.containers) == ["main", "other"]
    assert (report.at, of_other.at) == (NOW, None)


def test_failed_pull_without_message_has_its_reason() -> None:
    assert stages(with_status(waiting("InvalidImageName")))[Stage.PULL].detail == "InvalidImageName"


def test_pulls_are_reported_before_credentials_that_are_being_resolved() -> None:
    ready = {"observed": observed(sandbox())}
    resolving = {"busybox": 4.0}

    both = stages(pulling={"nginx": (3.0, False)}, resolving=resolving, **ready)[Stage.PULL]
    only_resolving = stages(resolving=resolving, **ready)[Stage.PULL]

    assert both.detail == "pulling: nginx for 3 s"
    assert only_resolving.detail == "resolving credentials of busybox for 4 s"


def test_images_are_present_once_containers_were_created() -> None:
    pod = make_pod(containers=["main", "other"])
    containers = observed(sandbox(), main=RuntimeState.RUNNING)

    some = stages(pod, observed=containers)[Stage.PULL]
    crashed = stages(with_status(waiting("CrashLoopBackOff", name="other"), pod=pod), observed=containers)[Stage.PULL]
    creating = stages(with_status(waiting("ContainerCreating", name="other"), pod=pod), observed=containers)[Stage.PULL]

    assert (some.state, list(some.containers)) == (StageState.WORKING, ["other"])
    assert (creating.state, list(creating.containers)) == (StageState.WORKING, ["other"])
    assert (crashed.state, crashed.at) == (StageState.DONE, None)


def test_images_of_containers_are_not_awaited_while_the_pod_initializes() -> None:
    pod = make_pod(init_containers=["setup"])
    status = PodStatus(phase="Pending", init_container_statuses=[ContainerStatus(name="setup")])

    report = stages(msgspec.structs.replace(pod, status=status), journal=[event("Pulled")])[Stage.PULL]

    assert (report.state, report.at) == (StageState.DONE, NOW + timedelta(seconds=9))


# --- start ----------------------------------------------------------------------------------------------------


def test_waiting_container_has_reason_event_and_last_exit() -> None:
    status = waiting("CrashLoopBackOff", "back-off 20s", last_state=exited(3))
    journal = [event("BackOff", field_path="spec.containers{main}"), event("BackOff", field_path="spec.containers{x}")]

    report = stages(with_status(status), journal=journal[:1], observed=observed(sandbox()))[Stage.START]
    of_other = stages(with_status(status), journal=journal[1:], observed=observed(sandbox()))[Stage.START]

    assert (report.state, report.reason) == (StageState.BLOCKED, "CrashLoopBackOff")
    assert report.detail == "back-off 20s; last exit: exit code 3 (Error)"
    assert list(report.containers) == ["main"]
    assert (report.at, of_other.at) == (NOW, None)


def test_waiting_container_without_message_and_exit_has_its_reason() -> None:
    report = stages(with_status(waiting("CreateContainerError")), observed=observed(sandbox()))[Stage.START]

    assert report.detail == "CreateContainerError"


@pytest.mark.parametrize("characters", [MAX_MESSAGE_CHARACTERS, MAX_MESSAGE_CHARACTERS + 1])
def test_long_termination_message_is_shortened(characters: int) -> None:
    status = waiting("CrashLoopBackOff", "x", last_state=exited(3, "m" * characters, reason=""))

    detail = stages(with_status(status), observed=observed(sandbox()))[Stage.START].detail

    shortened = "…" if characters > MAX_MESSAGE_CHARACTERS else ""
    assert detail == f"x; last exit: exit code 3 ({'m' * MAX_MESSAGE_CHARACTERS}{shortened})"


def initializing(state: ContainerState, last_state: ContainerState | None = None, **fields: Any) -> StageReport:
    """Return the start stage of a pod whose init container has a state."""
    status = ContainerStatus(name="setup", state=state, last_state=last_state or ContainerState(), **fields)
    container = make_container("setup", restart_policy="Always" if "started" in fields else None)
    pod = make_pod(init_containers=[container])
    pod = msgspec.structs.replace(pod, status=PodStatus(phase="Pending", init_container_statuses=[status]))
    return stages(pod, observed=observed(sandbox(), main=RuntimeState.CREATED))[Stage.START]


@pytest.mark.parametrize(
    ("state", "last_state", "text", "at"),
    [
        (ContainerState(running=ContainerStateRunning(NOW)), None, "init container setup is running", NOW),
        (
            ContainerState(running=ContainerStateRunning(NOW)),
            exited(4),
            "init container setup is running; last exit: exit code 4 (Error)",
            NOW,
        ),
        (exited(5), exited(4), "init container setup is starting; last exit: exit code 5 (Error)", None),
        (ContainerState(), exited(0), "init container setup is starting", None),
        (ContainerState(), None, "init container setup is starting", None),
    ],
)
def test_init_container_in_progress_has_its_last_failure(
    state: ContainerState, last_state: ContainerState | None, text: str, at: datetime | None
) -> None:
    report = initializing(state, last_state)

    assert (report.state, report.detail, report.at) == (StageState.WORKING, text, at)
    assert list(report.containers) == ["setup"]


def test_init_container_is_done_once_ready_or_started() -> None:
    ended, runs = exited(0), ContainerState(running=ContainerStateRunning(NOW))

    assert initializing(ended, ready=True).detail == "containers to start"
    assert initializing(runs, started=True).detail == "containers to start"
    assert initializing(runs, started=False).detail == "init container setup is running"


def test_containers_to_start_are_listed() -> None:
    pod = make_pod(containers=["main", "done", "other", "unknown"])
    statuses = [running(), ContainerStatus(name="done", state=exited(0)), ContainerStatus(name="other")]

    report = stages(
        with_status(*statuses, pod=pod),
        observed=observed(sandbox(), **dict.fromkeys(("main", "done", "other", "unknown"), RuntimeState.CREATED)),
    )[Stage.START]

    assert (report.state, report.detail) == (StageState.WORKING, "containers to start")
    assert list(report.containers) == ["other", "unknown"]


def test_started_containers_have_count_and_latest_time() -> None:
    pod = make_pod(containers=["main", "late", "done"])
    later = ContainerState(running=ContainerStateRunning(NOW + timedelta(seconds=5)))
    statuses = [running(), ContainerStatus(name="late", state=later), ContainerStatus(name="done", state=exited(0))]

    report = stages(with_status(*statuses, pod=pod), observed=observed(sandbox()))[Stage.START]

    assert (report.state, report.detail, report.at) == (StageState.DONE, "2 running", NOW + timedelta(seconds=5))


# --- ready ----------------------------------------------------------------------------------------------------

RUNNING = observed(sandbox(), main=RuntimeState.RUNNING)


def ready_condition(status: str, reason: str = "") -> list[PodCondition]:
    return [PodCondition(type="Ready", status=status, reason=reason, message="gate x", last_transition_time=NOW)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (ready_condition("True"), (StageState.DONE, "", "", NOW)),
        (
            ready_condition("False", "ReadinessGatesNotReady"),
            (StageState.BLOCKED, "ReadinessGatesNotReady", "gate x", NOW),
        ),
        (
            ready_condition("False", "ContainersNotReady"),
            (StageState.WORKING, "", "probes have not succeeded yet", NOW),
        ),
        ([], (StageState.WORKING, "", "probes have not succeeded yet", None)),
    ],
)
def test_ready_stage_has_the_reason_of_the_condition(
    condition: list[PodCondition], expected: tuple[StageState, str, str, datetime | None]
) -> None:
    report = stages(with_status(running(), conditions=condition), observed=RUNNING)[Stage.READY]

    assert (report.state, report.reason, report.detail, report.at) == expected


def test_probe_failures_are_reported_only_for_unready_containers() -> None:
    journal = [event("Unhealthy", "probe failed: 503 ", "spec.containers{main}", 4)]

    unready = stages(with_status(running()), observed=RUNNING, journal=journal)[Stage.READY]
    ready = stages(with_status(running(ready=True)), observed=RUNNING, journal=journal)[Stage.READY]

    assert (unready.state, unready.reason, unready.at) == (StageState.BLOCKED, "Unhealthy", NOW)
    assert (unready.detail, list(unready.containers)) == ("probe failed: 503 (4 times, last 00:00:09)", ["main"])
    assert (ready.state, ready.detail, list(ready.containers)) == (StageState.WORKING, "containers to become ready", [])


# --- termination ----------------------------------------------------------------------------------------------


def terminating(phase: Phase = Phase.TERMINATING, **fields: Any) -> WorkerSnapshot:
    return WorkerSnapshot(phase=phase, termination=Termination(KillReason.EVICTED, "no room"), **fields)


@pytest.mark.parametrize(
    ("containers", "alive"),
    [
        ({"main": RuntimeState.RUNNING, "other": RuntimeState.EXITED}, "main"),
        ({"main": RuntimeState.RUNNING, "other": RuntimeState.RUNNING}, "main, other"),
        ({"main": RuntimeState.EXITED}, "none"),
    ],
)
def test_terminating_pod_names_running_containers(containers: dict[str, RuntimeState], alive: str) -> None:
    report = stages(worker=terminating(), observed=observed(sandbox(), **containers))[Stage.END]

    assert report.detail == f"terminating (Evicted: no room); still running: {alive}"
    assert (report.state, report.reason) == (StageState.WORKING, "Evicted")


def test_failed_termination_is_blocked_by_its_error() -> None:
    report = stages(worker=terminating(error="busy", reason="RuntimeFailure"))[Stage.END]

    assert (report.state, report.reason, report.detail) == (StageState.BLOCKED, "RuntimeFailure", "busy")


@pytest.mark.parametrize(
    ("worker", "status", "reason", "text"),
    [
        (terminating(Phase.TERMINATED), PodStatus(phase="Failed"), "Evicted", "Failed: Evicted: no room"),
        (
            terminating(Phase.TERMINATED),
            PodStatus(phase="Failed", reason="NodeLost", message="x"),
            "NodeLost",
            "Failed: NodeLost: no room",
        ),
        (None, PodStatus(phase="Failed", reason="Evicted", message="x"), "Evicted", "Failed: Evicted: x"),
        (None, PodStatus(phase="Succeeded"), "", "Succeeded"),
    ],
)
def test_terminated_pod_has_phase_reason_and_message(
    worker: WorkerSnapshot | None, status: PodStatus, reason: str, text: str
) -> None:
    pod = msgspec.structs.replace(make_pod(), status=status)

    found = stages(pod, worker=worker, observed=observed(main=RuntimeState.EXITED))

    end = found[Stage.END]
    assert (end.state, end.reason, end.detail) == (StageState.DONE, reason, text)
    assert blocking(list(found.values())) is None


def test_stages_in_progress_are_left_out_of_a_terminating_pod() -> None:
    assert Stage.SANDBOX not in stages(worker=terminating())
    assert Stage.END not in stages()


def test_rejected_pod_waits_in_all_later_stages() -> None:
    status = PodStatus(phase="Failed", reason="OutOfcpu", message="no cpu", start_time=NOW)

    found = stages(msgspec.structs.replace(make_pod(), status=status), worker=None)

    admit = found.pop(Stage.ADMIT)
    assert (admit.state, admit.reason, admit.detail, admit.at) == (StageState.BLOCKED, "OutOfcpu", "no cpu", NOW)
    assert {report.state for report in found.values()} == {StageState.WAITING}
    assert Stage.END not in found


# --- admission and order --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("worker", "deciding", "text"),
    [
        (None, "", "admission of the pod is in progress"),
        (None, "plugin x", "admission of the pod is in progress, plugin x"),
        (WorkerSnapshot(phase=Phase.SYNC, queued=True), "", "waiting for a terminating pod of the same name"),
    ],
)
def test_pod_that_is_not_admitted_yet_blocks_later_stages(
    worker: WorkerSnapshot | None, deciding: str, text: str
) -> None:
    found = stages(worker=worker, deciding=deciding)

    assert (found[Stage.ADMIT].state, found[Stage.ADMIT].detail) == (StageState.WORKING, text)
    assert found[Stage.SANDBOX].state is StageState.WAITING
    assert blocking(list(found.values())) is found[Stage.ADMIT]


def test_plugin_call_is_added_only_to_a_stage_in_progress() -> None:
    working = stages(calling="plugin x")[Stage.SANDBOX]
    blocked = stages(worker=WorkerSnapshot(phase=Phase.SYNC, network_problem="no CNI"), calling="plugin x")
    done = stages(
        with_status(running(ready=True), conditions=ready_condition("True")), observed=RUNNING, calling="plugin x"
    )

    assert working.detail == "to be created, plugin x"
    assert blocked[Stage.SANDBOX].detail == "no CNI"
    assert blocking(list(done.values())) is None
