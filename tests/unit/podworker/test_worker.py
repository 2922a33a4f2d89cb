"""Tests for the worker of a pod: sync, termination, and status reports during both."""

import msgspec
import pytest

from nodeagent.contracts.pods import KillReason
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.errors import RuntimeUnavailable
from nodeagent.model.pod import PodCondition, PodStatus
from nodeagent.podworker.metrics import STEPS
from nodeagent.podworker.worker import resync_pause
from nodeagent.testing import make_container, make_pod
from tests.unit.podworker.harness import deleted


async def test_desired_pod_runs_and_status_is_reported_immediately(harness):
    pod = make_pod("web")

    await harness.publish(pod)

    assert harness.runtime.running() != []
    assert harness.workers.status(pod.uid).phase == "Running"


async def test_pod_removed_from_source_is_terminated_and_removed(harness):
    pod = make_pod("web")
    await harness.publish(pod)

    await harness.publish()

    assert harness.runtime.running() == []
    assert harness.syncer.steps[-1] == ("remove", "web")
    assert harness.workers.get(pod.uid) is None


async def test_removal_of_a_known_pod_does_not_list_the_runtime(harness):
    pod = make_pod("web")
    await harness.publish(pod)
    listed = []
    harness.runtime.list_sandboxes = harness.runtime.list_containers = lambda uid="": listed.append(uid)

    await harness.publish()

    assert harness.syncer.steps[-1] == ("remove", "web")
    assert listed == []


async def test_termination_lists_the_containers_after_an_interrupted_sync(harness):
    pod = make_pod("web")
    await harness.publish(pod)
    harness.syncer.hang = True
    harness.workers.trigger_sync(pod.uid)
    await harness.clock.advance(0)
    second = harness.runtime.start("second", pod)
    stopped = []
    harness.runtime.stop_container = lambda container_id, grace: _record(stopped, container_id)

    await harness.publish()

    assert second in stopped


async def _record(items, item):
    items.append(item)


async def test_finished_pod_is_retained_until_no_longer_desired(harness):
    pod = make_pod("job", restart_policy="Never")
    await harness.publish(pod)
    harness.runtime.exit(harness.runtime.pod(pod.uid).containers[0].id, 0)
    await harness.cache.refresh(pod.uid)

    harness.workers.trigger_sync(pod.uid)
    await harness.clock.advance(0)

    assert harness.workers.status(pod.uid).phase == "Succeeded"
    assert harness.names("terminated") == ["job"]
    assert harness.names("remove") == []
    assert (harness.workers.all(), harness.workers.active()) == ([pod], [])
    await harness.publish()
    assert harness.names("remove") == ["job"]


async def test_deletion_uses_grace_period_of_the_request(harness):
    pod = make_pod("web")
    await harness.publish(pod)

    await harness.publish(deleted(pod, 7))

    assert harness.syncer.graces == [7]


async def test_termination_cancels_a_hanging_sync(harness):
    harness.syncer.hang = True
    await harness.publish(make_pod("web"))
    harness.syncer.hang = False

    await harness.publish()

    assert harness.names("remove") == ["web"]


async def test_unavailable_runtime_delays_sync_without_losing_changes(harness):
    harness.syncer.error = RuntimeUnavailable("runtime is away")
    pod = make_pod("web")
    await harness.publish(pod)
    assert harness.runtime.running() == []
    harness.syncer.error = None

    await harness.clock.advance(30)

    assert harness.workers.status(pod.uid).phase == "Running"


@pytest.mark.row("config.syncFrequency")
async def test_pod_is_resynced_once_per_sync_period(harness):
    await harness.publish(make_pod("web"))
    assert len(harness.syncer.steps) == 1

    await harness.clock.advance(59)
    assert len(harness.syncer.steps) == 1
    await harness.clock.advance(35)

    assert len(harness.syncer.steps) == 2


async def test_network_not_ready_delays_only_pods_that_need_it(harness):
    harness.network_problem = "NetworkPluginNotReady"
    await harness.publish(make_pod("web"), make_pod("host", host_network=True))
    assert harness.names("sync") == ["host"]
    assert harness.recorder.reasons() == ["NetworkNotReady"]
    harness.network_problem = ""

    await harness.clock.advance(2)

    assert sorted(harness.names("sync")) == ["host", "web"]


async def test_readiness_gate_takes_effect_with_api_update(harness):
    pod = make_pod("web", readiness_gates=[{"conditionType": "example.com/ok"}])
    await harness.publish(pod)
    await harness.clock.advance(1)
    ready = PodCondition(type="example.com/ok", status="True")

    await harness.publish(msgspec.structs.replace(pod, status=PodStatus(phase="Running", conditions=[ready])))
    await harness.clock.settle()

    conditions = {condition.type: condition.status for condition in harness.workers.status(pod.uid).conditions}
    assert (conditions["ContainersReady"], conditions["Ready"]) == ("True", "True")


async def test_pod_with_failed_phase_in_api_is_terminated(harness):
    pod = make_pod("web")
    await harness.publish(pod)
    failed = PodStatus(phase="Failed", reason="NodeLost", message="node does not respond")

    await harness.publish(msgspec.structs.replace(pod, status=failed))
    await harness.clock.advance(0)

    status = harness.workers.status(pod.uid)
    assert (status.phase, status.reason, status.message) == ("Failed", "NodeLost", "node does not respond")
    assert harness.runtime.running() == []


async def test_pod_past_active_deadline_fails(harness):
    pod = make_pod("job", active_deadline_seconds=30)
    await harness.publish(pod)

    await harness.clock.advance(31)

    status = harness.workers.status(pod.uid)
    assert (status.phase, status.reason) == ("Failed", "DeadlineExceeded")
    assert harness.runtime.running() == []


async def test_pod_fails_exactly_at_its_active_deadline(harness):
    pod = make_pod("job", active_deadline_seconds=30)
    await harness.publish(pod)
    start_time = harness.workers.status(pod.uid).start_time

    await harness.clock.advance(30 - (harness.clock.wall() - start_time).total_seconds())

    assert harness.workers.status(pod.uid).reason == "DeadlineExceeded"


async def test_killed_pod_fails_with_status_reason(harness):
    pod = make_pod("web")
    await harness.publish(pod)

    harness.workers.kill(
        pod.uid, KillReason.EVICTED, "node was low on memory", status_reason="Evicted", grace_seconds=0
    )
    await harness.clock.advance(0)

    status = harness.workers.status(pod.uid)
    assert (status.phase, status.reason, status.message) == ("Failed", "Evicted", "node was low on memory")
    assert [c.message for c in status.conditions if c.type == "DisruptionTarget"] == ["node was low on memory"]
    assert harness.syncer.graces == [1]


@pytest.mark.parametrize(
    ("reason", "grace", "passed"),
    [
        (KillReason.FINISHED, None, None),
        (KillReason.ORPHANED, None, None),
        (KillReason.FINISHED, 5, 5),
        (KillReason.EVICTED, None, 30),
        (KillReason.DELETED, 7, 7),
    ],
)
async def test_containers_choose_their_grace_period_only_in_finished_pods(harness, reason, grace, passed):
    pod = make_pod("web")
    await harness.publish(pod)

    harness.workers.kill(pod.uid, reason, "", grace_seconds=grace)
    await harness.clock.advance(0)

    assert harness.syncer.graces == [passed]


async def test_syncs_are_counted_by_operation(harness):
    pod = make_pod("web")

    def counts():
        return {name: STEPS.count(name) for name in ("create", "update", "sync", "kill")}

    def added(before):
        return {name: count - before[name] for name, count in counts().items() if count != before[name]}

    found, before = [], counts()
    for change in ([pod], [make_pod("web", labels={"a": "b"})], None, []):
        if change is None:
            harness.workers.trigger_sync(pod.uid)
            await harness.clock.advance(0)
        else:
            await harness.publish(*change)
        found.append(added(before))
        before = counts()

    assert found == [{"create": 1}, {"update": 1}, {"sync": 1}, {"kill": 2}]


async def test_preempted_pod_has_disruption_message(harness):
    pod = make_pod("web")
    await harness.publish(pod)

    harness.workers.kill(
        pod.uid, KillReason.PREEMPTED, "Preempted in order to admit critical pod", status_reason="Preempting"
    )
    await harness.clock.advance(0)

    status = harness.workers.status(pod.uid)
    assert (status.reason, status.message) == ("Preempting", "Preempted in order to admit critical pod")
    target = next(c for c in status.conditions if c.type == "DisruptionTarget")
    assert target.message == "Pod was preempted by Kubelet to accommodate a critical pod."


@pytest.mark.parametrize("relisted", [True, False])
async def test_terminated_pod_is_queried_only_for_unobserved_changes(harness, relisted):
    pod = make_pod("web")
    await harness.publish(pod)
    queried = []

    async def count(object_id, call):
        queried.append(object_id)
        return await call(object_id)

    container_status, sandbox_status = harness.runtime.container_status, harness.runtime.sandbox_status
    stop_sandbox = harness.runtime.stop_sandbox

    async def stop_and_relist(sandbox_id):
        await stop_sandbox(sandbox_id)
        if relisted:
            await harness.cache.refresh(pod.uid)
        harness.runtime.container_status = lambda object_id: count(object_id, container_status)
        harness.runtime.sandbox_status = lambda object_id: count(object_id, sandbox_status)

    harness.runtime.stop_sandbox = stop_and_relist
    await harness.publish()

    assert harness.names("remove") == ["web"]
    assert len(queried) == (0 if relisted else 2)


async def test_later_termination_request_only_shortens_grace_period(harness):
    pod = make_pod("web", termination_grace_period_seconds=40)
    await harness.publish(pod)
    harness.syncer.stuck = True
    harness.workers.kill(pod.uid, KillReason.DEADLINE, "too long")
    await harness.clock.advance(0)

    for grace in (600, 40, 7):
        harness.workers.kill(pod.uid, KillReason.DELETED, "", grace_seconds=grace)
        await harness.clock.advance(0)

    assert harness.syncer.graces == [40, 7]


def probed_pod():
    """Return a pod with a readiness probe."""
    return make_pod("web", containers=[make_container(readiness_probe={"exec": {"command": ["check"]}})])


def ready(harness, pod):
    conditions = harness.workers.status(pod.uid).conditions
    return {condition.type: condition.status for condition in conditions}["Ready"]


async def test_failed_readiness_probe_is_reported_while_pod_terminates(harness):
    pod = probed_pod()
    await harness.publish(pod)
    container = harness.runtime.pod(pod.uid).containers[0]
    harness.prober.results[container.id, ProbeKind.READINESS] = ProbeResult.SUCCESS
    harness.workers.trigger_sync(pod.uid)
    await harness.clock.advance(0)
    harness.syncer.stuck = True
    await harness.publish(deleted(pod, 30))
    before = ready(harness, pod)

    harness.prober.results[container.id, ProbeKind.READINESS] = ProbeResult.FAILURE
    harness.workers.trigger_sync(pod.uid)
    await harness.clock.advance(0)

    assert harness.runtime.running() == ["web/main"]
    assert (before, ready(harness, pod)) == ("True", "False")
    assert harness.names("terminating") == ["web"]


async def test_exited_container_is_reported_while_another_one_stops(harness):
    pod = make_pod("web", containers=["main", "slow"])
    await harness.publish(pod)
    harness.runtime.start("slow", pod)
    harness.syncer.stuck = True
    await harness.publish(deleted(pod, 30))

    harness.runtime.exit(harness.runtime.pod(pod.uid).newest("main").id, 143)
    await harness.cache.refresh(pod.uid)
    harness.workers.trigger_sync(pod.uid)
    await harness.clock.advance(0)

    status = harness.workers.status(pod.uid)
    main, slow = status.container_statuses
    assert (main.state.terminated.exit_code, slow.state.running is not None) == (143, True)
    assert (status.phase, ready(harness, pod)) == ("Running", "False")


async def test_probe_result_is_reported_while_sync_step_blocks(harness):
    pod = probed_pod()
    await harness.publish(pod)
    harness.syncer.hang = True
    harness.workers.trigger_sync(pod.uid)
    await harness.clock.advance(0)
    before = ready(harness, pod)

    container = harness.runtime.pod(pod.uid).containers[0]
    harness.prober.results[container.id, ProbeKind.READINESS] = ProbeResult.SUCCESS
    harness.workers.trigger_sync(pod.uid)
    await harness.clock.advance(0)

    assert (before, ready(harness, pod)) == ("False", "True")


async def test_failed_report_during_step_does_not_end_reporting(harness, monkeypatch, caplog):
    pod = probed_pod()
    await harness.publish(pod)
    harness.syncer.stuck = True
    await harness.publish(deleted(pod, 30))
    container = harness.runtime.pod(pod.uid).containers[0]
    harness.prober.results[container.id, ProbeKind.READINESS] = ProbeResult.SUCCESS
    with monkeypatch.context() as broken:
        broken.setattr(harness.cache, "get", lambda uid: 1 / 0)
        harness.workers.trigger_sync(pod.uid)
        await harness.clock.advance(0)

    harness.workers.trigger_sync(pod.uid)
    await harness.clock.advance(0)

    assert "Failed to report pod status during sync" in caplog.text
    assert ready(harness, pod) == "True"


async def test_eviction_far_beyond_grace_period_records_one_event(harness):
    pod = make_pod("web")
    await harness.publish(pod)
    harness.syncer.stuck = True

    harness.workers.kill(
        pod.uid, KillReason.EVICTED, "node was low on memory", status_reason="Evicted", grace_seconds=8
    )
    await harness.clock.advance(11)
    assert "ExceededGracePeriod" not in harness.recorder.reasons()
    await harness.clock.advance(100)

    [event] = harness.recorder.of("ExceededGracePeriod")
    assert event.note == "Container runtime did not kill the pod within specified grace period."


@pytest.mark.parametrize("period", [0.0, 1.0, 10.0, 60.0])
@pytest.mark.parametrize("jitter", [0.0, 0.03, 0.5, 0.999])
@pytest.mark.parametrize("now", [0.0, 1.3, 1000.0])
def test_periodic_sync_is_due_after_one_to_one_and_a_half_periods(now, period, jitter):
    assert period <= resync_pause(now, period, jitter) <= 1.5 * period + 0.01


def test_periodic_syncs_of_pods_share_their_times():
    times = {round(now + resync_pause(now, 60.0, 0.5), 6) for now in (100.0, 101.5, 103.0, 104.9)}

    assert len(times) <= 2
