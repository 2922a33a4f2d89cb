"""Tests for resizes of running containers: order of the changes, and their execution."""

from dataclasses import dataclass, field

import msgspec
import pytest

from nodeagent.contracts.cgroups import PodLimit
from nodeagent.contracts.runtime import LinuxResources
from nodeagent.model.pod import ResourceRequirements
from nodeagent.model.resources import CPU, MEMORY, pod_limits, pod_requests
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.pod_sync.resize_plan import (
    ContainerUpdate,
    RunningContainer,
    plan_resize,
    restart_required,
    shortage,
)

GI = 1 << 30


def size(cpu=None, memory=None, *, request_cpu="100m"):
    limits = {name: value for name, value in ((CPU, cpu), (MEMORY, memory)) if value}
    return ResourceRequirements(requests={CPU: request_cpu}, limits=limits or None)


def limits(pod):
    total = pod_limits(pod)
    return LinuxResources(
        memory_limit_bytes=total[MEMORY].value() if MEMORY in total else 0,
        cpu_quota=total[CPU].milli_value() * 100 if CPU in total else 0,
        cpu_shares=pod_requests(pod)[CPU].milli_value(),
    )


@dataclass
class Change:
    """Containers with their desired and their actuated resources."""

    containers: dict = field(default_factory=dict)

    def plan(self):
        desired = [
            msgspec.structs.replace(make_container(name), resources=new) for name, (_, new) in self.containers.items()
        ]
        pod = make_pod("web", containers=desired)
        running = [
            RunningContainer(f"id-{each.name}", each, self.containers[each.name][0]) for each in pod.spec.containers
        ]
        return plan_resize(pod, running, limits)

    def steps(self):
        plan = self.plan()
        return [
            step if isinstance(step, PodLimit) else (step.container_id, effective(step.container.resources))
            for step in (plan.steps if plan is not None else ())
        ]


def effective(resources):
    return {**(resources.limits or {}), "request": (resources.requests or {}).get(CPU)}


def test_unchanged_resources_need_no_plan():
    assert Change({"a": (size("1"), size("1000m"))}).plan() is None


def test_growing_memory_raises_the_pod_first():
    change = Change({"a": (size("1", "1Gi"), size("1", "2Gi"))})

    assert change.steps() == [PodLimit.MEMORY, ("id-a", {CPU: "1", MEMORY: "2Gi", "request": "100m"})]


def test_shrinking_memory_lowers_the_pod_last():
    change = Change({"a": (size("1", "2Gi"), size("1", "1Gi"))})

    assert change.steps() == [("id-a", {CPU: "1", MEMORY: "1Gi", "request": "100m"}), PodLimit.MEMORY]
    assert change.plan().pod_memory == GI
    assert change.plan().container_memory == {"a": GI}


def test_memory_is_resized_before_cpu():
    change = Change({"a": (size("1", "1Gi"), size("2", "2Gi", request_cpu="200m"))})

    assert change.steps() == [
        PodLimit.MEMORY,
        ("id-a", {CPU: "1", MEMORY: "2Gi", "request": "100m"}),
        PodLimit.CPU,
        PodLimit.CPU_SHARES,
        ("id-a", {CPU: "2", MEMORY: "2Gi", "request": "200m"}),
    ]


def test_lower_cpu_reduces_the_request_before_the_limit():
    change = Change({"a": (size("2", request_cpu="200m"), size("1"))})

    assert change.steps() == [("id-a", {CPU: "1", "request": "100m"}), PodLimit.CPU_SHARES, PodLimit.CPU]


def test_shrinking_containers_are_changed_before_growing_ones():
    change = Change({"grows": (size("1"), size("2")), "shrinks": (size("2"), size("1"))})

    assert [step[0] for step in change.steps()] == ["id-shrinks", "id-grows"]


def test_added_limit_counts_as_decrease():
    change = Change({"a": (size(), size(memory="1Gi"))})

    assert change.steps() == [("id-a", {MEMORY: "1Gi", "request": "100m"}), PodLimit.MEMORY]
    assert change.plan().container_memory == {"a": GI}


def test_container_without_record_gets_its_resources_again():
    change = Change({"a": (None, size("1", "1Gi"))})

    assert change.steps() == [("id-a", {CPU: "1", MEMORY: "1Gi", "request": "100m"})] * 2


def test_usage_at_the_new_limit_is_an_error():
    plan = Change({"a": (size("1", "2Gi"), size("1", "1Gi"))}).plan()

    assert shortage(plan, GI - 1, {"a": GI - 1}) == []
    assert shortage(plan, GI, {"a": GI}) == [
        f"attempting to set pod memory limit ({GI}) below current usage ({GI})",
        f'attempting to set container "a" memory limit ({GI}) below current usage ({GI})',
    ]
    assert shortage(plan, None, {}) == ["missing pod memory usage", 'missing container "a" memory usage']


@pytest.mark.parametrize(
    ("policy", "actuated", "expected"),
    [
        ("RestartContainer", size("2"), True),
        ("NotRequired", size("2"), False),
        (None, size("2"), False),
        ("RestartContainer", size("1", "1Gi"), False),
        ("RestartContainer", None, False),
    ],
)
def test_restart_is_required_by_the_policy_of_a_changed_resource(policy, actuated, expected):
    policies = [{"resourceName": CPU, "restartPolicy": policy}] if policy else None
    container = msgspec.structs.replace(make_container("a", resize_policy=policies), resources=size("1"))

    assert restart_required(container, actuated) is expected


def test_update_keeps_resources_that_cannot_be_resized():
    request = {CPU: "1"}
    desired = ResourceRequirements(requests=request, limits={CPU: "2", "ephemeral-storage": "1Gi"})
    actuated = ResourceRequirements(requests=request, limits={CPU: "1", "ephemeral-storage": "1Gi"})
    change = Change({"a": (actuated, desired)})

    (step,) = [step for step in change.plan().steps if isinstance(step, ContainerUpdate)]

    assert step.container.resources.limits == {CPU: "2", "ephemeral-storage": "1Gi"}


def test_pod_level_limit_is_raised_before_its_containers():
    container = msgspec.structs.replace(make_container("a"), resources=size(memory="2Gi"))
    pod = make_pod("web", containers=[container], resources={"limits": {MEMORY: "2Gi"}})
    running = [RunningContainer("id-a", container, size(memory="1Gi"))]

    plan = plan_resize(pod, running, limits, own=ResourceRequirements(limits={MEMORY: "1Gi"}))

    assert [getattr(step, "container_id", step) for step in plan.steps] == [PodLimit.MEMORY, "id-a"]


def test_pod_level_limit_is_changed_without_its_containers():
    container = msgspec.structs.replace(make_container("a"), resources=size("1", "1Gi"))
    pod = make_pod("web", containers=[container], resources={"limits": {CPU: "2", MEMORY: "4Gi"}})
    own = ResourceRequirements(limits={CPU: "3", MEMORY: "2Gi"})

    plan = plan_resize(pod, [RunningContainer("id-a", container, size("1", "1Gi"))], limits, own=own)

    assert plan.steps == [PodLimit.MEMORY, PodLimit.CPU]


def test_limits_that_stay_are_not_compared_with_the_usage():
    plan = Change({"a": (size("1", "1Gi"), size("2", "1Gi"))}).plan()

    assert (plan.pod_memory, plan.container_memory) == (0, {})


@pytest.mark.parametrize(("before", "planned"), [("2", False), ("1", True)])
def test_resources_of_the_pod_itself_are_compared(before, planned):
    own = {"requests": {CPU: "100m"}, "limits": {CPU: "2"}}
    pod = make_pod("web", containers=[make_container("a", resources={"requests": {CPU: "100m"}})], resources=own)
    running = [RunningContainer("id-a", container, container.resources) for container in pod.spec.containers]

    plan = plan_resize(pod, running, limits, own=size(before))

    assert (plan is not None) is planned
