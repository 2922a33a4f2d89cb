"""Tests for the selection of the run whose log is returned."""

import pytest

from nodeagent.model.pod import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodStatus,
)
from nodeagent.testing import FakeRuntime, make_pod
from nodeagent_plugins.routes_logs.container_run import NoLog, choose_run

POD = make_pod("web")


@pytest.fixture
def runs():
    """Pod with three runs of a container, the last of which is running, and another container."""
    runtime = FakeRuntime()
    ids = []
    for _ in range(2):
        ids.append(runtime.start("main", POD))
        runtime.exit(ids[-1], 1)
    ids.append(runtime.start("main", POD))
    runtime.start("other", POD)
    return runtime.pod(POD.uid), ids


def ended(container_id):
    return ContainerState(terminated=ContainerStateTerminated(exit_code=1, container_id=f"fake://{container_id}"))


def waiting(reason):
    return ContainerState(waiting=ContainerStateWaiting(reason=reason))


def of(state, last=None, container_id="", group="container_statuses"):
    known = {"container_id": f"fake://{container_id}"} if container_id else {}
    status = ContainerStatus(name="main", state=state, last_state=last or ContainerState(), **known)
    return PodStatus(**{group: [ContainerStatus(name="first"), status]})


RUNNING = ContainerState(running=ContainerStateRunning())


def test_run_is_that_of_the_reported_state(runs):
    observed, (first, second, third) = runs
    for status, previous, expected in [
        (of(RUNNING, ended(second), third), False, third),
        (of(RUNNING, ended(second), third), True, second),
        (of(ended(second), ended(first)), False, second),
        (of(ended(second), ended(first)), True, first),
        (of(waiting("CrashLoopBackOff"), ended(second)), False, second),
        (of(waiting("CrashLoopBackOff"), ended(second)), True, second),
        (of(RUNNING, container_id=third, group="init_container_statuses"), False, third),
        (of(RUNNING, container_id=third, group="ephemeral_container_statuses"), False, third),
        (PodStatus(), False, third),
        (None, False, third),
    ]:
        assert choose_run(POD, "main", status, observed, previous=previous).id == expected, (status, previous)


def test_container_without_a_log_is_reported_with_the_reason(runs):
    observed, (first, _second, third) = runs
    unavailable = 'container "main" in pod "web" is not available'
    for status, seen, previous, text in [
        (None, None, False, unavailable),
        (None, observed, True, unavailable),
        (None, FakeRuntime().pod("none"), False, unavailable),
        (
            of(RUNNING, container_id=third),
            observed,
            True,
            'previous terminated container "main" in pod "web" not found',
        ),
        (of(RUNNING, container_id=third), None, False, 'container "main" in pod "web": its log no longer exists'),
        (of(ended("gone")), observed, False, 'container "main" in pod "web": its log no longer exists'),
        (
            of(waiting("ErrImagePull"), None, first),
            observed,
            False,
            'container "main" in pod "web" is waiting to start: image can\'t be pulled',
        ),
        (
            of(waiting("ContainerCreating")),
            observed,
            False,
            'container "main" in pod "web" is waiting to start: ContainerCreating',
        ),
        (of(ContainerState()), observed, False, 'container "main" in pod "web" is waiting to start: '),
    ]:
        with pytest.raises(NoLog) as caught:
            choose_run(POD, "main", status, seen, previous=previous)
        assert str(caught.value) == text, status
