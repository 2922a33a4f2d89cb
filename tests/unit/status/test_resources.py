"""Tests for the resources in container statuses."""

import msgspec
import pytest

from nodeagent.allocation.report import ResourceReport
from nodeagent.contracts.runtime import ContainerState, LinuxResources, RuntimeContainerStatus, RuntimePod
from nodeagent.model.pod import ContainerStatus, ResourceRequirements
from nodeagent.status.resources import resources_in_effect, with_resources
from nodeagent.testing import make_container, make_pod

ALLOCATED = ResourceRequirements(
    requests={"cpu": "0.2", "memory": "64Mi"}, limits={"cpu": "1", "memory": "128Mi", "ephemeral-storage": "1Gi"}
)


def sized(resources=ALLOCATED, name="main", **fields):
    return msgspec.structs.replace(make_container(name, **fields), resources=resources)


def run(reported=None, state=ContainerState.RUNNING):
    return RuntimeContainerStatus(
        id="c1",
        name="main",
        attempt=0,
        state=state,
        created_at=1,
        started_at=1,
        finished_at=0,
        exit_code=0,
        image="busybox",
        image_ref="sha256:1",
        resources=reported,
    )


def test_container_that_is_not_running_has_the_allocated_resources():
    actuated = ResourceRequirements(requests={"cpu": "5"})

    assert resources_in_effect(sized(), None, actuated) == ALLOCATED
    assert resources_in_effect(sized(), run(state=ContainerState.EXITED), actuated) == ALLOCATED


def test_running_container_has_the_resources_that_the_runtime_reports():
    reported = LinuxResources(cpu_period=100_000, cpu_quota=50_000, cpu_shares=102, memory_limit_bytes=96 << 20)
    actuated = ResourceRequirements(requests={"cpu": "100m", "memory": "32Mi"})

    assert resources_in_effect(sized(), run(reported), actuated) == ResourceRequirements(
        requests={"cpu": "100m", "memory": "32Mi"},
        limits={"cpu": "500m", "memory": "96Mi", "ephemeral-storage": "1Gi"},
    )


def test_runtime_that_reports_nothing_has_applied_the_actuated_resources():
    actuated = ResourceRequirements(requests={"cpu": "100m", "memory": "64Mi"}, limits={"cpu": "1", "memory": "96Mi"})

    assert resources_in_effect(sized(), run(), actuated) == ResourceRequirements(
        requests={"cpu": "100m", "memory": "64Mi"}, limits={"cpu": "1", "memory": "96Mi", "ephemeral-storage": "1Gi"}
    )


def test_equal_quantities_keep_the_notation_of_the_spec():
    reported = LinuxResources(cpu_period=100_000, cpu_quota=100_000, cpu_shares=204, memory_limit_bytes=128 << 20)

    assert resources_in_effect(sized(), run(reported), ALLOCATED) == ALLOCATED


@pytest.mark.parametrize("kind", ["requests", "limits"])
def test_cpu_below_the_minimum_of_the_kernel_is_shown_as_granted(kind):
    allocated = ResourceRequirements(**{kind: {"cpu": "1m"}})
    reported = LinuxResources(cpu_period=100_000, cpu_quota=1000, cpu_shares=2)

    assert resources_in_effect(sized(allocated), run(reported), allocated) == allocated


def test_container_without_resources_reports_an_empty_object():
    pod = make_pod("web", containers=[make_container()])

    (status,) = with_resources(pod, [ContainerStatus(name="main")], ResourceReport({}), None)

    encoded = msgspec.to_builtins(status)
    assert encoded["resources"] == {}
    assert "allocatedResources" not in encoded


@pytest.mark.parametrize("init", [False, True])
def test_init_containers_report_resources_with_their_feature(init):
    containers = [sized(name="setup"), sized(name="sidecar", restart_policy="Always")]
    pod = make_pod("web", init_containers=containers)
    statuses = [ContainerStatus(name="setup"), ContainerStatus(name="sidecar")]
    runtime = RuntimePod(pod.uid, pod.name, pod.namespace)

    setup, sidecar = with_resources(pod, statuses, ResourceReport({}, init=init), runtime)

    assert sidecar.allocated_resources == ALLOCATED.requests
    assert (setup.resources is not msgspec.UNSET) is init
