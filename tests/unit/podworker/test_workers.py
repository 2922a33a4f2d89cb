"""Tests for pod workers: pod lifecycle, admission, termination and orphans."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec
import pytest

from nodeagent import hookimpl
from nodeagent.allocation import metrics
from nodeagent.allocation.decision import ResizeRules
from nodeagent.allocation.manager import AllocationManager
from nodeagent.config.features import build_gates
from nodeagent.contracts.pods import KillReason, Rejection, SyncOutcome
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.errors import RuntimeUnavailable
from nodeagent.model.pod import PodCondition, PodStatus, ResourceRequirements
from nodeagent.model.resources import pod_requests
from nodeagent.pleg.cache import PodCache
from nodeagent.pluginmanager import PluginManager
from nodeagent.podworker.desired import DesiredPods, is_static
from nodeagent.podworker.metrics import ADMISSION_REJECTIONS, ORPHANS, RESTARTED, WORKING
from nodeagent.podworker.worker import WorkerComponents, resync_pause
from nodeagent.podworker.workers import PodWorkers
from nodeagent.status.manager import StatusManager
from nodeagent.testing import FakeProber, FakeRecorder, FakeRuntime, make_container, make_pod


class OneContainerSyncer:
    """Syncer that starts the first container of a pod and stops all containers on termination."""

    def __init__(self, runtime):
        self.runtime, self.steps, self.graces, self.error, self.hang = runtime, [], [], None, False
        self.stuck = False

    async def sync_pod(self, pod, status, observed):
        self.steps.append(("sync", pod.name))
        if self.hang:
            await asyncio.Event().wait()
        if self.error:
            return SyncOutcome(error=self.error)
        if observed.containers:
            return SyncOutcome()
        container = self.runtime.start("main", pod)
        sandboxes = await self.runtime.list_sandboxes(pod.uid)
        return SyncOutcome(touched=frozenset({container, *(sandbox.id for sandbox in sandboxes)}))

    async def sync_terminating(self, pod, observed, grace_seconds):
        self.steps.append(("terminating", pod.name))
        self.graces.append(grace_seconds)
        if self.stuck:
            await asyncio.Event().wait()
        for container in observed.containers:
            await self.runtime.stop_container(container.id, grace_seconds or 0)
        for sandbox in observed.sandboxes:
            await self.runtime.stop_sandbox(sandbox.id)
        return SyncOutcome(touched=frozenset(each.id for each in (*observed.containers, *observed.sandboxes)))

    async def sync_stopped(self, pod):
        self.steps.append(("stopped", pod.name))

    async def sync_terminated(self, pod, observed):
        self.steps.append(("terminated", pod.name))

    async def remove_pod(self, pod, observed):
        self.steps.append(("remove", pod.name))
        for sandbox in observed.sandboxes:
            await self.runtime.remove_sandbox(sandbox.id)

    async def remove_orphans(self, is_known):
        pass


class Harness:
    def __init__(self, clock, *plugins, resizing=False):
        self.clock, self.runtime, self.recorder = clock, FakeRuntime(clock), FakeRecorder()
        self.syncer = OneContainerSyncer(self.runtime)
        self.cache = PodCache(lambda: self.runtime, clock)
        self.plugins = PluginManager()
        for index, plugin in enumerate(plugins):
            self.plugins.register(plugin, name=f"plugin{index}")
        self.network_problem = ""
        self.allocations = AllocationManager(
            None,
            ResizeRules(enabled=resizing),
            recorder=lambda: self.recorder,
            may_swap=lambda pod, container: False,
            now=clock.wall,
        )
        self.prober = FakeProber()
        self.workers = PodWorkers(DesiredPods(["file"]), self.parts, lambda kind, pod: None)
        self.status = StatusManager(
            api=lambda: None,
            clock=clock,
            plugins=self.plugins,
            probes=self.prober.result,
            host_ips=lambda: ["192.0.2.1"],
            runtime_name=lambda: "fake",
            is_static=is_static,
            mirror_of=lambda pod: None,
            gates=build_gates({}),
            trigger_sync=self.workers.trigger_sync,
            allocations=self.allocations,
        )

    def parts(self):
        return WorkerComponents(
            syncer=lambda: self.syncer,
            observer=self.cache,
            status=self.status,
            plugins=self.plugins,
            recorder=self.recorder,
            clock=self.clock,
            resync_seconds=60,
            network_problem=lambda: self.network_problem,
            finished=self.workers.finished,
            ended=self.workers.ended,
            allocations=self.allocations,
        )

    async def publish(self, *pods):
        self.workers.publish("file", list(pods))
        await self.clock.advance(0)

    def names(self, step):
        return [name for kind, name in self.syncer.steps if kind == step]


@asynccontextmanager
async def living(harness):
    task = asyncio.create_task(harness.workers.run())
    try:
        await harness.clock.advance(0)
        yield harness
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def harness(clock):
    async with living(Harness(clock)) as built:
        yield built


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


def deleted(pod, grace_seconds):
    """Return *pod* as the API returns it after a deletion request."""
    meta = msgspec.structs.replace(
        pod.metadata, deletion_timestamp=datetime(2024, 1, 1, tzinfo=UTC), deletion_grace_period_seconds=grace_seconds
    )
    return msgspec.structs.replace(pod, metadata=meta)


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


async def test_orphaned_runtime_pod_is_terminated_once_sources_are_ready(harness):
    stray = make_pod("stray")
    harness.runtime.start("main", stray)
    await harness.cache.refresh(stray.uid)
    harness.workers.terminate_orphans(list(harness.cache.pods()))
    await harness.clock.advance(0)
    assert harness.runtime.running() != []
    await harness.publish()

    harness.workers.terminate_orphans(list(harness.cache.pods()))
    await harness.clock.advance(0)

    assert harness.runtime.running() == []
    assert harness.cache.get(stray.uid) is None


async def test_duplicate_pod_name_records_an_event(harness):
    await harness.publish(make_pod("web", uid="1"), make_pod("web", uid="2"))

    [event] = harness.recorder.of("FailedValidation")
    assert event.regarding.uid == "2"
    assert event.note == ('Error validating pod web_default(2) from file due to duplicate pod name "web", ignoring')


async def test_static_pod_waits_for_termination_of_predecessor(harness):
    annotations = {"kubernetes.io/config.source": "file"}
    old, new = (make_pod("web", uid=uid, annotations=annotations) for uid in ("1", "2"))
    await harness.publish(old)

    await harness.publish(new)
    await harness.clock.advance(1)

    steps = harness.syncer.steps
    assert steps.index(("remove", "web")) < len(steps) - 1
    assert harness.workers.status("2").phase == "Running"


async def test_stopping_the_agent_leaves_pods_running(clock):
    harness = Harness(clock)
    async with living(harness):
        await harness.publish(make_pod("web"))

    assert harness.runtime.running() != []
    assert harness.names("terminating") == []


async def test_running_containers_are_adopted_without_restart(clock):
    harness, pod = Harness(clock), make_pod("web")
    harness.runtime.start("main", pod)
    await harness.cache.refresh(pod.uid)
    async with living(harness):
        await harness.publish(pod)

    assert len(harness.runtime.called("create_container")) == 0
    assert len(harness.runtime.running()) == 1


class Refuser:
    def __init__(self, error=None):
        self.error, self.admitted, self.terminated, self.statuses = error, [], [], []

    @hookimpl
    async def nodeagent_admit_pod(self, pod):
        if self.error:
            raise self.error
        return Rejection("NotHere", "this node is full") if pod.name == "bad" else None

    @hookimpl
    async def nodeagent_pod_admitted(self, pod):
        self.admitted.append(pod.name)

    @hookimpl
    async def nodeagent_pod_terminated(self, pod):
        self.terminated.append(pod.name)

    @hookimpl
    async def nodeagent_pod_status_changed(self, status):
        self.statuses.append(status.phase)


async def test_hook_admit_pod(clock):
    plugin = Refuser()
    async with living(Harness(clock, plugin)) as harness:
        bad = make_pod("bad")
        await harness.publish(bad, make_pod("good"))

        status = harness.workers.status(bad.uid)
        assert (status.phase, status.reason) == ("Failed", "NotHere")
        assert status.message == "Pod was rejected: this node is full"
        assert harness.recorder.reasons() == ["NotHere"]
        assert harness.names("sync") == ["good"]
        assert plugin.admitted == ["good"]
        assert [d.plugin for d in harness.plugins.decisions] == ["plugin0"]


async def test_rejected_pod_that_runs_since_before_a_restart_is_stopped(clock):
    async with living(Harness(clock, Refuser())) as harness:
        bad = make_pod("bad")
        harness.runtime.start("main", bad)
        await harness.cache.refresh(bad.uid)

        await harness.publish(bad)

        assert harness.runtime.running() == []
        status = harness.workers.status(bad.uid)
        assert (status.phase, status.reason) == ("Failed", "NotHere")


async def test_rejected_pod_of_unknown_status_is_stopped(clock):
    async with living(Harness(clock, Refuser())) as harness:
        bad = make_pod("bad")
        harness.runtime.start("main", bad)
        harness.cache.failed(bad.uid)

        await harness.publish(bad)

        assert harness.runtime.running() == []


async def test_pod_of_unknown_status_is_read_before_its_sync(clock):
    async with living(Harness(clock)) as harness:
        pod = make_pod("web")
        container = harness.runtime.start("main", pod)
        harness.cache.failed(pod.uid)

        await harness.publish(pod)

        assert [each.id for each in harness.cache.get(pod.uid).containers] == [container]
        assert harness.runtime.running() == ["web/main"]


class Undecided:
    """Plugin that never decides about the pod ``slow``, depending on the other pods."""

    @hookimpl
    async def nodeagent_admit_pod(self, pod, active):
        if pod.name == "slow":
            await asyncio.Event().wait()


async def test_removal_of_a_pod_does_not_wait_for_the_admission_of_another(clock):
    async with living(Harness(clock, Undecided())) as harness:
        web, slow = make_pod("web"), make_pod("slow")
        await harness.publish(web)
        await harness.publish(web, slow)

        await harness.publish(slow)

        assert harness.runtime.running() == []
        assert harness.workers.get(web.uid) is None


class Decisions:
    """Plugins that decide about the pods ``web`` and ``last`` when the test permits it."""

    def __init__(self):
        self.web, self.last = asyncio.Event(), asyncio.Event()

    @property
    def plugins(self):
        decisions = self

        class Independent:
            @hookimpl
            async def nodeagent_admit_pod(self, pod):
                if pod.name == "web":
                    await decisions.web.wait()

        class Dependent:
            @hookimpl
            async def nodeagent_admit_pod(self, pod, active):
                if pod.name == "last":
                    await decisions.last.wait()

        return Independent(), Dependent()


@pytest.mark.parametrize("removed", [False, True])
async def test_pod_is_deleted_or_removed_while_its_admission_is_decided(clock, removed):
    decisions, web, last = Decisions(), make_pod("web"), make_pod("last")
    async with living(Harness(clock, *decisions.plugins)) as harness:
        await harness.publish(web)
        await harness.publish(web, last)  # The changes after it wait for the decision about this pod.
        await harness.publish(*(() if removed else (deleted(web, 5),)), last)
        decisions.web.set()
        await clock.advance(0)

        decisions.last.set()
        await clock.advance(0)

        assert [name for step, name in harness.syncer.steps if step == "sync"] == ["last"]
        assert harness.runtime.running() == ["last/main"]


async def test_failing_admission_plugin_rejects_the_pod(clock):
    rejections = ADMISSION_REJECTIONS.value("UnexpectedAdmissionError")
    async with living(Harness(clock, Refuser(error=OSError("boom")))) as harness:
        pod = make_pod("web")
        await harness.publish(pod)

        assert harness.workers.status(pod.uid).reason == "UnexpectedAdmissionError"
        assert ADMISSION_REJECTIONS.value("UnexpectedAdmissionError") == rejections + 1


async def test_hook_pod_admitted(clock):
    plugin = Refuser()
    async with living(Harness(clock, plugin)) as harness:
        await harness.publish(make_pod("web"))

        assert (plugin.admitted, plugin.terminated) == (["web"], [])


async def test_hook_pod_terminated(clock):
    plugin = Refuser()
    async with living(Harness(clock, plugin)) as harness:
        await harness.publish(make_pod("web"))
        await harness.publish()

        assert plugin.terminated == ["web"]


async def test_hook_pod_status_changed(clock):
    plugin = Refuser()
    harness = Harness(clock, plugin)
    sending = asyncio.create_task(harness.status.run())
    async with living(harness):
        await harness.publish(make_pod("web"))
        await clock.advance(0)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)

    assert plugin.statuses[-1] == "Running"


class Gate:
    def __init__(self):
        self.closed = True

    @hookimpl
    async def nodeagent_permit_pod(self, pod):
        return Rejection("Closed", "the gate is closed") if self.closed else None


async def test_hook_permit_pod(clock):
    gate = Gate()
    async with living(Harness(clock, gate)) as harness:
        pod = make_pod("web")
        await harness.publish(pod)
        waiting = harness.workers.status(pod.uid).container_statuses[0].state.waiting
        assert (waiting.reason, waiting.message) == ("Blocked", "the gate is closed")
        status = harness.workers.status(pod.uid)
        assert (status.phase, status.reason, status.message) == ("Pending", "Closed", "the gate is closed")
        gate.closed = False

        await harness.clock.advance(20)

        status = harness.workers.status(pod.uid)
        assert (status.phase, status.reason, status.message) == ("Running", "", "")


def working():
    return {labels: count for labels, count in WORKING.sample().items() if count}


async def test_working_pods_metric_counts_by_lifecycle_and_config(harness):
    static = make_pod("static", annotations={"kubernetes.io/config.source": "file"})
    job = make_pod("job", restart_policy="Never")
    await harness.publish(static, job)
    assert working() == {("sync", "desired", "true"): 1, ("sync", "desired", ""): 1}
    harness.runtime.exit(harness.runtime.pod(job.uid).containers[0].id, 0)
    await harness.cache.refresh(job.uid)
    harness.workers.trigger_sync(job.uid)
    await harness.clock.advance(0)
    assert working() == {("sync", "desired", "true"): 1, ("terminated", "desired", ""): 1}

    before = ORPHANS.value()
    harness.runtime.start("main", make_pod("stray"))
    await harness.cache.refresh("uid-stray")
    harness.workers.terminate_orphans(list(harness.cache.pods()))

    assert working()["terminating", "runtime_only", "unknown"] == 1
    assert ORPHANS.value() == before + 1
    assert len(WORKING.sample()) == 15


async def test_pod_recreated_with_same_uid_is_counted(harness):
    pod = make_pod("web", annotations={"kubernetes.io/config.source": "file"})
    before = RESTARTED.value("true"), RESTARTED.value("")
    await harness.publish(pod)

    harness.workers.publish("file", [])
    harness.workers.publish("file", [pod])
    await harness.clock.advance(1)

    assert (RESTARTED.value("true"), RESTARTED.value("")) == (before[0] + 1, before[1])
    assert harness.workers.status(pod.uid).phase == "Running"


async def test_pod_recreated_with_same_uid_keeps_its_containers(harness):
    pod = make_pod("web", annotations={"kubernetes.io/config.source": "file"})
    await harness.publish(pod)

    harness.workers.publish("file", [])
    harness.workers.publish("file", [pod])
    await harness.clock.advance(1)

    assert ("remove", "web") not in harness.syncer.steps
    harness.workers.publish("file", [])
    harness.workers.publish("file", [pod])
    harness.workers.publish("file", [])
    await harness.clock.advance(1)
    assert ("remove", "web") in harness.syncer.steps


def sized_pod(name, cpu, generation=1):
    container = msgspec.structs.replace(make_container(), resources=ResourceRequirements(requests={"cpu": cpu}))
    pod = make_pod(name, containers=[container])
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, generation=generation))


class CpuLimit:
    """Admission that rejects pods above a total cpu request."""

    def __init__(self, milli):
        self.milli = milli

    @hookimpl
    async def nodeagent_admit_pod(self, pod, active):
        pods = [pod, *(other for other in active if other.uid != pod.uid)]
        used = sum(pod_requests(each)["cpu"].milli_value() for each in pods)
        return Rejection("OutOfcpu", "no cpu left") if used > self.milli else None


@pytest.fixture
async def full(clock):
    """Node with room for 300m of cpu, whose pods can be resized."""
    limit = CpuLimit(300)
    harness = Harness(clock, limit, resizing=True)
    harness.limit = limit
    async with living(harness) as built:
        yield built


def granted(harness, pod):
    return harness.workers.get(pod.uid).spec.containers[0].resources.requests["cpu"]


def resize_conditions(harness, pod):
    conditions = harness.workers.status(pod.uid).conditions
    return {c.type: c.reason for c in conditions if c.type.startswith("PodResize")}


async def test_pod_is_resized_as_far_as_the_node_has_room(full):
    web, other = sized_pod("web", "100m"), sized_pod("other", "100m")
    await full.publish(web, other)

    await full.publish(sized_pod("web", "200m", 2), other)

    assert granted(full, web) == "200m"
    await full.publish(sized_pod("web", "250m", 3), other)
    assert granted(full, web) == "200m"
    assert resize_conditions(full, web) == {"PodResizePending": "Deferred", "PodResizeInProgress": ""}


async def test_requested_resizes_are_counted_only_if_pods_can_be_resized(full, clock):
    async with living(Harness(clock)) as fixed:
        count = metrics.REQUESTED.value("cpu", "requests", "increase")
        for harness, counted in ((fixed, 0), (full, 1)):
            await harness.publish(sized_pod("web", "100m"))
            await harness.publish(sized_pod("web", "200m", 2))

            assert metrics.REQUESTED.value("cpu", "requests", "increase") == count + counted


async def test_deferred_resize_is_granted_after_a_pod_was_removed(full):
    web, other = sized_pod("web", "100m"), sized_pod("other", "200m")
    await full.publish(web, other)
    resized = sized_pod("web", "200m", 2)
    await full.publish(resized, other)
    assert granted(full, web) == "100m"

    await full.publish(resized)

    assert granted(full, web) == "200m"


async def test_deferred_resize_is_granted_after_another_pod_shrank(full):
    web, other = sized_pod("web", "100m"), sized_pod("other", "200m")
    await full.publish(web, other)
    resized = sized_pod("web", "200m", 2)
    await full.publish(resized, other)

    await full.publish(resized, sized_pod("other", "100m", 2))

    assert granted(full, web) == "200m"


async def test_deferred_resize_is_retried_periodically(full):
    web, other = sized_pod("web", "100m"), sized_pod("other", "200m")
    await full.publish(web, other)
    await full.publish(sized_pod("web", "200m", 2), other)
    full.limit.milli = 1000

    await full.clock.advance(30)

    assert granted(full, web) == "200m"


@pytest.mark.parametrize("period", [0.0, 1.0, 10.0, 60.0])
@pytest.mark.parametrize("jitter", [0.0, 0.03, 0.5, 0.999])
@pytest.mark.parametrize("now", [0.0, 1.3, 1000.0])
def test_periodic_sync_is_due_after_one_to_one_and_a_half_periods(now, period, jitter):
    assert period <= resync_pause(now, period, jitter) <= 1.5 * period + 0.01


def test_periodic_syncs_of_pods_share_their_times():
    times = {round(now + resync_pause(now, 60.0, 0.5), 6) for now in (100.0, 101.5, 103.0, 104.9)}

    assert len(times) <= 2


async def test_changes_of_a_publication_are_logged_by_operation(harness, caplog):
    caplog.set_level(1, "nodeagent.podworker.workers")
    deletion = {"deletion_timestamp": harness.clock.wall(), "deletion_grace_period_seconds": 30}
    one, other = make_pod("a"), make_pod("b")
    lines = []
    for pods in (
        [one, other],
        [make_pod("a", labels={"changed": "yes"}), other],
        [make_pod("a", metadata=deletion), make_pod("b", status=PodStatus(phase="Running"))],
        [],
    ):
        caplog.clear()
        await harness.publish(*pods)
        lines.append([(r.message, r.pods) for r in caplog.records if r.message.startswith("SyncLoop")])

    assert lines == [
        [("SyncLoop ADD", ["default/a", "default/b"])],
        [("SyncLoop UPDATE", ["default/a"])],
        [("SyncLoop DELETE", ["default/a"]), ("SyncLoop RECONCILE", ["default/b"])],
        [("SyncLoop REMOVE", ["default/a", "default/b"])],
    ]


async def test_terminated_pods_are_neither_active_nor_represented(harness):
    static = {"kubernetes.io/config.source": "file"}
    pods = [make_pod("a", annotations=static), make_pod("b", annotations=static)]
    await harness.publish(*pods)
    assert [pod.name for pod in harness.workers.active()] == ["a", "b"]
    harness.workers.kill(pods[0].uid, KillReason.EVICTED, "no room", grace_seconds=0)
    await harness.clock.advance(30)

    assert [pod.name for pod in harness.workers.active()] == ["b"]
    assert sorted(pod.name for pod in harness.workers.static_pods()) == ["a", "b"]
    await harness.publish(pods[1])
    await harness.clock.advance(30)
    assert [pod.name for pod in harness.workers.static_pods()] == ["b"]
