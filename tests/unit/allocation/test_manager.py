"""Tests for the allocation manager: granted resources, pending resizes and their conditions."""

import msgspec
import pytest

from nodeagent.allocation import metrics
from nodeagent.contracts.pods import Rejection
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus, RuntimePod
from nodeagent.model.pod import ContainerStatus, PodStatus, ResourceRequirements

from .conftest import sized_pod


async def admit_all(pod):
    return None


async def admit_none(pod):
    return Rejection("OutOfcpu", "Node didn't have enough resource: cpu")


def running(pod):
    container = RuntimeContainerStatus(
        id="c1",
        name="main",
        attempt=0,
        state=ContainerState.RUNNING,
        created_at=1,
        started_at=1,
        finished_at=0,
        exit_code=0,
        image="busybox",
        image_ref="sha256:1",
    )
    return RuntimePod(pod.uid, pod.name, pod.namespace, (), (container,))


def requests(pod):
    return pod.spec.containers[0].resources.requests


async def admitted(manager, pod):
    pod = await manager.restore(pod)
    await manager.allocate(pod)
    await manager.record_actuated(pod.uid, "main", pod.spec.containers[0].resources)
    return pod


def conditions(manager, pod):
    return [(each.type, each.reason, each.observed_generation) for each in manager.conditions(pod.uid)]


async def test_pending_resize_leaves_the_allocated_resources(make_manager):
    manager = make_manager()
    pod = await admitted(manager, sized_pod())

    assert manager.request(sized_pod(cpu="200m"))

    assert manager.allocated(sized_pod(cpu="200m")) == pod


async def test_equal_quantity_in_other_notation_requests_nothing(make_manager):
    manager = make_manager()
    await admitted(manager, sized_pod())

    assert not manager.request(sized_pod(cpu="0.1"))


async def test_granted_resize_is_reported_until_it_is_applied(make_manager, recorder):
    manager = make_manager()
    await admitted(manager, sized_pod())
    desired = sized_pod(cpu="200m", generation=2)
    manager.request(desired)

    changed = []
    await manager.retry({desired.uid: desired}, admit_all, "pod_updated", changed.append)

    assert changed == [desired]
    assert manager.allocated(desired) == desired
    assert conditions(manager, desired) == [("PodResizeInProgress", "", 2)]
    manager.review(desired, running(desired))
    assert conditions(manager, desired) == [("PodResizeInProgress", "", 2)]
    await manager.record_actuated(desired.uid, "main", desired.spec.containers[0].resources)
    manager.review(desired, running(desired))
    assert conditions(manager, desired) == []
    summary = '{"containers":[{"name":"main","resources":{"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":2}'
    assert [(event.reason, event.note) for event in recorder.events] == [
        ("ResizeStarted", f"Pod resize started: {summary}"),
        ("ResizeCompleted", f"Pod resize completed: {summary}"),
    ]


async def test_deferred_resize_is_granted_once_resources_are_free(make_manager, recorder):
    manager = make_manager()
    await admitted(manager, sized_pod())
    desired = sized_pod(cpu="200m", generation=2)
    manager.request(desired)
    before = metrics.DEFERRED_ACCEPTED.value("pods_removed")

    await manager.retry({desired.uid: desired}, admit_none, "pod_updated")
    await manager.retry({desired.uid: desired}, admit_none, "periodic_retry")

    assert conditions(manager, desired) == [("PodResizePending", "Deferred", 2)]
    assert manager.conditions(desired.uid)[0].message == "Node didn't have enough resource: cpu"
    assert requests(manager.allocated(desired))["cpu"] == "100m"
    await manager.retry({desired.uid: desired}, admit_all, "pods_removed")
    assert conditions(manager, desired) == [("PodResizeInProgress", "", 2)]
    assert [event.reason for event in recorder.events] == ["ResizeDeferred", "ResizeStarted"]
    assert metrics.DEFERRED_ACCEPTED.value("pods_removed") == before + 1


async def test_infeasible_resize_is_not_retried(make_manager, recorder):
    manager = make_manager(static_cpu_policy=True)
    equal = {"cpu": "100m", "memory": "64Mi"}
    await admitted(manager, sized_pod(limits=equal))
    desired = sized_pod(cpu="200m", limits={**equal, "cpu": "200m"}, generation=2)
    manager.request(desired)

    await manager.retry({desired.uid: desired}, admit_all, "pod_updated")

    assert conditions(manager, desired) == [("PodResizePending", "Infeasible", 2)]
    assert not manager.pending
    assert [event.reason for event in recorder.events] == ["ResizeInfeasible"]


async def test_reverted_resize_clears_the_pending_condition(make_manager):
    manager = make_manager()
    pod = await admitted(manager, sized_pod())
    desired = sized_pod(cpu="200m")
    manager.request(desired)
    await manager.retry({desired.uid: desired}, admit_none, "pod_updated")

    assert not manager.request(pod)

    assert conditions(manager, pod) == []


async def test_error_is_reported_once_and_kept_until_completion(make_manager, recorder):
    manager = make_manager()
    await admitted(manager, sized_pod())
    desired = sized_pod(cpu="200m", generation=2)
    manager.request(desired)
    await manager.retry({desired.uid: desired}, admit_all, "pod_updated")

    manager.failed(desired, "the kernel refused")
    manager.failed(desired, "the kernel refused")
    manager.review(desired, running(desired))

    assert conditions(manager, desired) == [("PodResizeInProgress", "Error", 2)]
    assert [event.reason for event in recorder.events] == ["ResizeStarted", "ResizeError"]
    assert recorder.events[-1].note.endswith('"generation":2,"error":"the kernel refused"}')


async def test_granted_resources_survive_a_restart(make_manager):
    await admitted(make_manager(), sized_pod())

    restored = await make_manager().restore(sized_pod(cpu="200m"))

    assert requests(restored)["cpu"] == "100m"


async def test_lost_state_is_rebuilt_from_the_pod_status(make_manager, tmp_path):
    reported = ResourceRequirements(requests={"cpu": "50m", "memory": "64Mi"})
    status = ContainerStatus(name="main", resources=reported, allocated_resources={"cpu": "100m", "memory": "64Mi"})
    pod = msgspec.structs.replace(sized_pod(cpu="200m"), status=PodStatus(container_statuses=[status]))
    (tmp_path / "allocated_pods_state").write_text("damaged")
    manager = make_manager()

    restored = await manager.restore(pod)

    assert requests(restored)["cpu"] == "100m"
    assert manager.actuated(pod.uid, "main") == reported


async def test_conditions_are_restored_from_the_pod_status(make_manager):
    manager = make_manager()
    pod = await admitted(manager, sized_pod())
    desired = sized_pod(cpu="200m", generation=2)
    manager.request(desired)
    await manager.retry({desired.uid: desired}, admit_none, "pod_updated")
    reported = msgspec.structs.replace(pod, status=PodStatus(conditions=list(manager.conditions(pod.uid))))

    restarted = make_manager()
    await restarted.restore(reported)

    assert restarted.conditions(pod.uid) == manager.conditions(pod.uid)


async def test_records_of_removed_pods_are_removed(make_manager):
    manager = make_manager()
    pod = await admitted(manager, sized_pod())

    await manager.retain(lambda uid: False)

    assert manager.actuated(pod.uid, "main") is None
    assert manager.allocated(sized_pod(cpu="200m")) == sized_pod(cpu="200m")


async def test_disabled_gate_uses_the_spec_and_writes_nothing(make_manager, tmp_path):
    manager = make_manager(enabled=False)
    await admitted(manager, sized_pod())

    assert not manager.request(sized_pod(cpu="200m"))

    assert manager.allocated(sized_pod(cpu="200m")) == sized_pod(cpu="200m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("before", "after", "operation"),
    [("100m", "200m", "increase"), ("200m", "100m", "decrease"), ("0", "100m", "add"), ("100m", "0", "remove")],
)
def test_requested_resizes_are_counted(before, after, operation):
    count = metrics.REQUESTED.value("cpu", "requests", operation)

    metrics.count_requested(sized_pod(cpu=before), sized_pod(cpu=after))

    assert metrics.REQUESTED.value("cpu", "requests", operation) == count + 1


async def test_pod_level_resources_are_granted_and_reported(make_manager):
    def pod(memory, generation=1):
        return msgspec.structs.replace(sized_pod(generation=generation), spec=with_memory(memory))

    def with_memory(memory):
        return msgspec.structs.replace(sized_pod().spec, resources=ResourceRequirements(limits={"memory": memory}))

    manager = make_manager(pod_level=True)
    before, desired = pod("1Gi"), pod("2Gi", 2)
    await admitted(manager, before)
    await manager.record_pod_actuated(before.uid, before.spec.resources)
    effective = ResourceRequirements(requests=requests(before), limits={"memory": "1Gi"})
    await manager.record_actuated(before.uid, "main", effective)
    manager.review(before, running(before))
    assert conditions(manager, before) == []

    manager.request(desired)
    assert manager.allocated(desired).spec.resources.limits == {"memory": "1Gi"}
    await manager.retry({desired.uid: desired}, admit_all, "pod_updated")

    assert manager.allocated(desired).spec.resources.limits == {"memory": "2Gi"}
    manager.review(desired, running(desired))
    assert conditions(manager, desired) == [("PodResizeInProgress", "", 2)]
    assert manager.report(desired.uid).pod == before.spec.resources
    larger = ResourceRequirements(requests=requests(before), limits={"memory": "2Gi"})
    await manager.record_actuated(desired.uid, "main", larger)
    await manager.record_pod_actuated(desired.uid, desired.spec.resources)
    manager.review(desired, running(desired))
    assert conditions(manager, desired) == []


async def test_containers_of_an_earlier_release_have_their_granted_resources(make_manager):
    manager = make_manager()

    pod = await manager.restore(sized_pod())

    assert manager.actuated(pod.uid, "main") == pod.spec.containers[0].resources
    manager.review(pod, running(pod))
    assert conditions(manager, pod) == []


async def test_unwritable_state_does_not_prevent_the_admission(make_manager, tmp_path):
    manager = make_manager()
    (tmp_path / "actuated_pods_state").mkdir()
    (tmp_path / "allocated_pods_state").mkdir()

    pod = await manager.restore(sized_pod())
    await manager.allocate(pod)

    assert pod == sized_pod()
    assert manager.request(sized_pod(cpu="200m")), "a later change is a resize"
    assert manager.allocated(sized_pod(cpu="200m")) == pod
    assert manager.actuated(pod.uid, "main") == pod.spec.containers[0].resources
