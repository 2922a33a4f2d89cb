"""Tests for the comparison of container statuses with the runtime."""

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.simulation.reported_status import ReportedStatus
from nodeagent.simulation.runtime_objects import Container, Sandbox


def runtime_container(name="web", attempt=0, **fields) -> Container:
    config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(uid="a", name="a"))
    metadata = cri.ContainerMetadata(name=name, attempt=attempt)
    return Container("c1", Sandbox("s1", config, 0, "192.0.2.9"), cri.ContainerConfig(metadata=metadata), 0, **fields)


def problems(container, state, *, last=False, count=0, phase="Running", kind="containerStatuses"):
    """Return the problems of a pod whose container *web* is reported in *state*."""
    reported = ReportedStatus()
    reported.started(container)
    status = {"name": "web", "restartCount": count, "containerID": "simulated://c1"}
    status |= {"state": {}, "lastState": state} if last else {"state": state}
    return list(reported.problems("a", {"phase": phase, kind: [status]}))


def terminated(code=3, message="bye", **fields):
    return {"terminated": {"exitCode": code, "message": message, "containerID": "simulated://c1", **fields}}


EXITED = {"state": cri.CONTAINER_EXITED, "exit_code": 3, "message": "bye"}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"])
def test_status_with_the_exit_code_and_message_of_the_container_is_true(last, kind):
    assert problems(runtime_container(**EXITED), terminated(), last=last, kind=kind) == []


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (terminated(code=0), "container web of pod a exited with 3, but its status reports 0"),
        (
            terminated(message=""),
            "the termination message of container web of pod a is 'bye', but its status reports ''",
        ),
    ],
)
def test_status_with_another_exit_code_or_message_is_false(last, state, problem):
    assert problems(runtime_container(**EXITED), state, last=last) == [problem]


def test_message_that_may_have_been_lost_is_not_compared():
    assert problems(runtime_container(**{**EXITED, "message": None}), terminated(message="")) == []


def test_end_of_a_running_container_is_false():
    container = runtime_container(state=cri.CONTAINER_RUNNING, message="bye")

    assert problems(container, terminated()) == ["container web of pod a runs, but its status reports its end"]


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"was_misreported": True}, terminated()),
        ({}, terminated(reason="ContainerStatusUnknown")),
        ({}, terminated(containerID="simulated://c9")),
    ],
)
def test_end_of_which_the_runtime_reports_nothing_is_not_compared(fields, state):
    assert problems(runtime_container(state=cri.CONTAINER_RUNNING, **fields), state) == []


def test_container_of_another_name_is_false():
    container = runtime_container("other", **EXITED)

    assert problems(container, terminated()) == ["the status of container web of pod a contains c1 of other"]
    assert problems(container, {"running": {}}) == [
        "the status of container web of pod a reports that c1 runs, which never started"
    ]


@pytest.mark.parametrize(("count", "is_true"), [(0, False), (1, True), (2, True)])
def test_restart_count_includes_all_attempts(count, is_true):
    found = problems(runtime_container(attempt=1), {"running": {}}, count=count)

    assert found == ([] if is_true else ["container web of pod a was restarted 1 times, but its status reports 0"])


@pytest.mark.parametrize(("code", "is_true"), [(0, True), (3, False)])
def test_pod_has_succeeded_only_if_its_containers_did(code, is_true):
    container = runtime_container(**{**EXITED, "exit_code": code})

    found = problems(container, terminated(code), phase="Succeeded")

    assert bool(found) != is_true
    assert all(text.startswith("pod a has the phase Succeeded, but container web has the state") for text in found)


def test_containers_of_other_pods_are_forgotten():
    reported = ReportedStatus()
    reported.started(runtime_container())
    running = {
        "containerStatuses": [{"name": "web", "restartCount": 0, "containerID": "x://c1", "state": {"running": {}}}]
    }

    reported.forget({"a"})
    assert not list(reported.problems("a", running))
    reported.forget({"b"})
    assert list(reported.problems("a", running))
