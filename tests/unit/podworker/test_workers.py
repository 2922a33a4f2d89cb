"""One worker a pod brings it through its life, whatever sources, runtime and plugins do meanwhile."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec
import pytest

from nodeagent import hookimpl
from nodeagent.config.features import build_gates
from nodeagent.contracts.pods import KillReason, Rejection, SyncOutcome
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.errors import RuntimeUnavailable
from nodeagent.model.pod import PodCondition, PodStatus
from nodeagent.pleg.cache import PodCache
from nodeagent.pluginmanager import PluginManager
from nodeagent.podworker.desired import DesiredPods, is_static
from nodeagent.podworker.metrics import ORPHANS, RESTARTED, WORKING
from nodeagent.podworker.worker import WorkerParts
from nodeagent.podworker.workers import PodWorkers
from nodeagent.status.manager import StatusManager
from nodeagent.testing import FakeProber, FakeRecorder, FakeRuntime, make_container, make_pod


class OneContainerSyncer:
    """Starts the first container of a pod and stops everything at its end."""

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
        return SyncOutcome(touched=frozenset({self.runtime.start("main", pod)}))

    async def sync_terminating(self, pod, observed, grace_seconds):
        self.steps.append(("terminating", pod.name))
        self.graces.append(grace_seconds)
        if self.stuck:
            await asyncio.Event().wait()
        for container in observed.containers:
            await self.runtime.stop_container(container.id, grace_seconds or 0)
        for sandbox in observed.sandboxes:
            await self.runtime.stop_sandbox(sandbox.id)
        return SyncOutcome()

    async def sync_terminated(self, pod, observed):
        self.steps.append(("terminated", pod.name))

    async def remove_pod(self, pod, observed):
        self.steps.append(("remove", pod.name))
        for sandbox in observed.sandboxes:
            await self.runtime.remove_sandbox(sandbox.id)

    async def remove_orphans(self, wanted, observed):
        pass


class House:
    def __init__(self, clock, *plugins):
        self.clock, self.runtime, self.recorder = clock, FakeRuntime(clock), FakeRecorder()
        self.syncer = OneContainerSyncer(self.runtime)
        self.cache = PodCache(lambda: self.runtime, clock)
        self.plugins = PluginManager()
        for index, plugin in enumerate(plugins):
            self.plugins.register(plugin, name=f"plugin{index}")
        self.network_problem = ""
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
            wake=self.workers.wake,
        )

    def parts(self):
        return WorkerParts(
            syncer=lambda: self.syncer,
            observer=self.cache,
            status=self.status,
            plugins=self.plugins,
            recorder=self.recorder,
            clock=self.clock,
            resync_seconds=60,
            network_problem=lambda: self.network_problem,
            finished=self.workers.finished,
        )

    async def publish(self, *pods):
        self.workers.publish("file", list(pods))
        await self.clock.advance(0)

    def names(self, step):
        return [name for kind, name in self.syncer.steps if kind == step]


@asynccontextmanager
async def living(house):
    task = asyncio.create_task(house.workers.run())
    try:
        await house.clock.advance(0)
        yield house
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def house(clock):
    async with living(House(clock)) as built:
        yield built


async def test_a_wanted_pod_runs_and_is_reported_at_once(house):
    pod = make_pod("web")

    await house.publish(pod)

    assert house.runtime.running() != []
    assert house.workers.status(pod.uid).phase == "Running"


async def test_a_pod_that_is_not_wanted_any_more_is_ended_and_removed(house):
    pod = make_pod("web")
    await house.publish(pod)

    await house.publish()

    assert house.runtime.running() == []
    assert house.syncer.steps[-1] == ("remove", "web")
    assert house.workers.get(pod.uid) is None


async def test_a_finished_pod_stays_readable_until_nobody_wants_it(house):
    pod = make_pod("job", restart_policy="Never")
    await house.publish(pod)
    house.runtime.exit(house.runtime.pod(pod.uid).containers[0].id, 0)
    await house.cache.refresh(pod.uid)

    house.workers.wake(pod.uid)
    await house.clock.advance(0)

    assert house.workers.status(pod.uid).phase == "Succeeded"
    assert house.names("terminated") == ["job"]
    assert house.names("remove") == []
    await house.publish()
    assert house.names("remove") == ["job"]


def deleted(pod, grace_seconds):
    """Return *pod* as the API shows it after its deletion was requested."""
    meta = msgspec.structs.replace(
        pod.metadata, deletion_timestamp=datetime(2024, 1, 1, tzinfo=UTC), deletion_grace_period_seconds=grace_seconds
    )
    return msgspec.structs.replace(pod, metadata=meta)


async def test_deletion_uses_the_grace_of_the_request(house):
    pod = make_pod("web")
    await house.publish(pod)

    await house.publish(deleted(pod, 7))

    assert house.syncer.graces == [7]


async def test_ending_a_pod_cancels_a_step_that_hangs(house):
    house.syncer.hang = True
    await house.publish(make_pod("web"))
    house.syncer.hang = False

    await house.publish()

    assert house.names("remove") == ["web"]


async def test_the_runtime_being_away_delays_and_loses_nothing(house):
    house.syncer.error = RuntimeUnavailable("runtime is away")
    pod = make_pod("web")
    await house.publish(pod)
    assert house.runtime.running() == []
    house.syncer.error = None

    await house.clock.advance(30)

    assert house.workers.status(pod.uid).phase == "Running"


@pytest.mark.row("config.syncFrequency")
async def test_a_pod_is_looked_at_again_once_a_sync_period(house):
    await house.publish(make_pod("web"))
    assert len(house.syncer.steps) == 1

    await house.clock.advance(59)
    assert len(house.syncer.steps) == 1
    await house.clock.advance(35)

    assert len(house.syncer.steps) == 2


async def test_a_pod_network_that_is_not_ready_holds_only_pods_that_need_it(house):
    house.network_problem = "NetworkPluginNotReady"
    await house.publish(make_pod("web"), make_pod("host", host_network=True))
    assert house.names("sync") == ["host"]
    assert house.recorder.reasons() == ["NetworkNotReady"]
    house.network_problem = ""

    await house.clock.advance(2)

    assert sorted(house.names("sync")) == ["host", "web"]


async def test_a_readiness_gate_counts_as_soon_as_the_api_shows_it(house):
    pod = make_pod("web", readiness_gates=[{"conditionType": "example.com/ok"}])
    await house.publish(pod)
    await house.clock.advance(1)
    ready = PodCondition(type="example.com/ok", status="True")

    await house.publish(msgspec.structs.replace(pod, status=PodStatus(phase="Running", conditions=[ready])))
    await house.clock.settle()

    conditions = {condition.type: condition.status for condition in house.workers.status(pod.uid).conditions}
    assert (conditions["ContainersReady"], conditions["Ready"]) == ("True", "True")


async def test_a_pod_that_the_api_calls_failed_is_ended(house):
    pod = make_pod("web")
    await house.publish(pod)
    failed = PodStatus(phase="Failed", reason="NodeLost", message="nobody heard of it")

    await house.publish(msgspec.structs.replace(pod, status=failed))
    await house.clock.advance(0)

    status = house.workers.status(pod.uid)
    assert (status.phase, status.reason, status.message) == ("Failed", "NodeLost", "nobody heard of it")
    assert house.runtime.running() == []


async def test_a_pod_past_its_deadline_fails(house):
    pod = make_pod("job", active_deadline_seconds=30)
    await house.publish(pod)

    await house.clock.advance(31)

    status = house.workers.status(pod.uid)
    assert (status.phase, status.reason) == ("Failed", "DeadlineExceeded")
    assert house.runtime.running() == []


async def test_a_killed_pod_fails_with_the_reason_given(house):
    pod = make_pod("web")
    await house.publish(pod)

    house.workers.kill(pod.uid, KillReason.EVICTED, "node was low on memory", status_reason="Evicted", grace_seconds=0)
    await house.clock.advance(0)

    status = house.workers.status(pod.uid)
    assert (status.phase, status.reason, status.message) == ("Failed", "Evicted", "node was low on memory")
    assert [c.message for c in status.conditions if c.type == "DisruptionTarget"] == ["node was low on memory"]
    assert house.syncer.graces == [1]


async def test_a_preempted_pod_says_for_whom(house):
    pod = make_pod("web")
    await house.publish(pod)

    house.workers.kill(
        pod.uid, KillReason.PREEMPTED, "Preempted in order to admit critical pod", status_reason="Preempting"
    )
    await house.clock.advance(0)

    status = house.workers.status(pod.uid)
    assert (status.reason, status.message) == ("Preempting", "Preempted in order to admit critical pod")
    target = next(c for c in status.conditions if c.type == "DisruptionTarget")
    assert target.message == "Pod was preempted by Kubelet to accommodate a critical pod."


async def test_a_later_request_to_end_a_pod_can_only_shorten_its_grace(house):
    pod = make_pod("web", termination_grace_period_seconds=40)
    await house.publish(pod)
    house.syncer.stuck = True
    house.workers.kill(pod.uid, KillReason.DEADLINE, "too long")
    await house.clock.advance(0)

    for grace in (600, 40, 7):
        house.workers.kill(pod.uid, KillReason.DELETED, "", grace_seconds=grace)
        await house.clock.advance(0)

    assert house.syncer.graces == [40, 7]


def probed_pod():
    """Return a pod whose container has a readiness probe."""
    return make_pod("web", containers=[make_container(readiness_probe={"exec": {"command": ["check"]}})])


def ready(house, pod):
    conditions = house.workers.status(pod.uid).conditions
    return {condition.type: condition.status for condition in conditions}["Ready"]


async def test_failed_readiness_probe_is_reported_while_pod_terminates(house):
    pod = probed_pod()
    await house.publish(pod)
    container = house.runtime.pod(pod.uid).containers[0]
    house.prober.results[container.id, ProbeKind.READINESS] = ProbeResult.SUCCESS
    house.workers.wake(pod.uid)
    await house.clock.advance(0)
    house.syncer.stuck = True
    await house.publish(deleted(pod, 30))
    before = ready(house, pod)

    house.prober.results[container.id, ProbeKind.READINESS] = ProbeResult.FAILURE
    house.workers.wake(pod.uid)
    await house.clock.advance(0)

    assert house.runtime.running() == ["web/main"]
    assert (before, ready(house, pod)) == ("True", "False")
    assert house.names("terminating") == ["web"]


async def test_exited_container_is_reported_while_another_one_stops(house):
    pod = make_pod("web", containers=["main", "slow"])
    await house.publish(pod)
    house.runtime.start("slow", pod)
    house.syncer.stuck = True
    await house.publish(deleted(pod, 30))

    house.runtime.exit(house.runtime.pod(pod.uid).newest("main").id, 143)
    await house.cache.refresh(pod.uid)
    house.workers.wake(pod.uid)
    await house.clock.advance(0)

    status = house.workers.status(pod.uid)
    main, slow = status.container_statuses
    assert (main.state.terminated.exit_code, slow.state.running is not None) == (143, True)
    assert (status.phase, ready(house, pod)) == ("Running", "False")


async def test_probe_result_is_reported_while_sync_step_blocks(house):
    pod = probed_pod()
    await house.publish(pod)
    house.syncer.hang = True
    house.workers.wake(pod.uid)
    await house.clock.advance(0)
    before = ready(house, pod)

    container = house.runtime.pod(pod.uid).containers[0]
    house.prober.results[container.id, ProbeKind.READINESS] = ProbeResult.SUCCESS
    house.workers.wake(pod.uid)
    await house.clock.advance(0)

    assert (before, ready(house, pod)) == ("False", "True")


async def test_failed_report_during_step_does_not_end_reporting(house, monkeypatch, caplog):
    pod = probed_pod()
    await house.publish(pod)
    house.syncer.stuck = True
    await house.publish(deleted(pod, 30))
    container = house.runtime.pod(pod.uid).containers[0]
    house.prober.results[container.id, ProbeKind.READINESS] = ProbeResult.SUCCESS
    with monkeypatch.context() as broken:
        broken.setattr(house.cache, "get", lambda uid: 1 / 0)
        house.workers.wake(pod.uid)
        await house.clock.advance(0)

    house.workers.wake(pod.uid)
    await house.clock.advance(0)

    assert "Failed to report pod status during a step" in caplog.text
    assert ready(house, pod) == "True"


async def test_an_eviction_that_takes_much_longer_than_its_grace_is_told_once(house):
    pod = make_pod("web")
    await house.publish(pod)
    house.syncer.stuck = True

    house.workers.kill(pod.uid, KillReason.EVICTED, "node was low on memory", status_reason="Evicted", grace_seconds=8)
    await house.clock.advance(11)
    assert "ExceededGracePeriod" not in house.recorder.reasons()
    await house.clock.advance(100)

    [told] = house.recorder.of("ExceededGracePeriod")
    assert told.note == "Container runtime did not kill the pod within specified grace period."


async def test_an_orphan_of_the_runtime_is_ended_once_all_sources_are_known(house):
    stray = make_pod("stray")
    house.runtime.start("main", stray)
    await house.cache.refresh(stray.uid)
    house.workers.end_orphans(list(house.cache.pods()))
    await house.clock.advance(0)
    assert house.runtime.running() != []
    await house.publish()

    house.workers.end_orphans(list(house.cache.pods()))
    await house.clock.advance(0)

    assert house.runtime.running() == []
    assert house.cache.get(stray.uid) is None


async def test_a_second_pod_of_one_name_is_told_in_an_event(house):
    await house.publish(make_pod("web", uid="1"), make_pod("web", uid="2"))

    [told] = house.recorder.of("FailedValidation")
    assert told.regarding.uid == "2"
    assert told.note == ('Error validating pod web_default(2) from file due to duplicate pod name "web", ignoring')


async def test_a_static_pod_waits_for_the_end_of_its_forerunner(house):
    annotations = {"kubernetes.io/config.source": "file"}
    old, new = (make_pod("web", uid=uid, annotations=annotations) for uid in ("1", "2"))
    await house.publish(old)

    await house.publish(new)
    await house.clock.advance(1)

    steps = house.syncer.steps
    assert steps.index(("remove", "web")) < len(steps) - 1
    assert house.workers.status("2").phase == "Running"


async def test_stopping_the_agent_leaves_pods_running(clock):
    house = House(clock)
    async with living(house):
        await house.publish(make_pod("web"))

    assert house.runtime.running() != []
    assert house.names("terminating") == []


async def test_what_runs_already_is_adopted_and_not_started_again(clock):
    house, pod = House(clock), make_pod("web")
    house.runtime.start("main", pod)
    await house.cache.refresh(pod.uid)
    async with living(house):
        await house.publish(pod)

    assert len(house.runtime.called("create_container")) == 0
    assert len(house.runtime.running()) == 1


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
    async with living(House(clock, plugin)) as house:
        bad = make_pod("bad")
        await house.publish(bad, make_pod("good"))

        status = house.workers.status(bad.uid)
        assert (status.phase, status.reason) == ("Failed", "NotHere")
        assert status.message == "Pod was rejected: this node is full"
        assert house.recorder.reasons() == ["NotHere"]
        assert house.names("sync") == ["good"]
        assert plugin.admitted == ["good"]
        assert [d.plugin for d in house.plugins.decisions] == ["plugin0"]


async def test_an_admission_that_fails_rejects_the_pod(clock):
    async with living(House(clock, Refuser(error=OSError("boom")))) as house:
        pod = make_pod("web")
        await house.publish(pod)

        assert house.workers.status(pod.uid).reason == "UnexpectedAdmissionError"


async def test_hook_pod_admitted(clock):
    plugin = Refuser()
    async with living(House(clock, plugin)) as house:
        await house.publish(make_pod("web"))

        assert (plugin.admitted, plugin.terminated) == (["web"], [])


async def test_hook_pod_terminated(clock):
    plugin = Refuser()
    async with living(House(clock, plugin)) as house:
        await house.publish(make_pod("web"))
        await house.publish()

        assert plugin.terminated == ["web"]


async def test_hook_pod_status_changed(clock):
    plugin = Refuser()
    house = House(clock, plugin)
    sending = asyncio.create_task(house.status.run())
    async with living(house):
        await house.publish(make_pod("web"))
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
    async with living(House(clock, gate)) as house:
        pod = make_pod("web")
        await house.publish(pod)
        waiting = house.workers.status(pod.uid).container_statuses[0].state.waiting
        assert (waiting.reason, waiting.message) == ("Blocked", "the gate is closed")
        status = house.workers.status(pod.uid)
        assert (status.phase, status.reason, status.message) == ("Pending", "Closed", "the gate is closed")
        gate.closed = False

        await house.clock.advance(20)

        status = house.workers.status(pod.uid)
        assert (status.phase, status.reason, status.message) == ("Running", "", "")


def working():
    return {labels: count for labels, count in WORKING.sample().items() if count}


async def test_pods_are_counted_by_how_far_they_are_and_who_wants_them(house):
    static = make_pod("static", annotations={"kubernetes.io/config.source": "file"})
    job = make_pod("job", restart_policy="Never")
    await house.publish(static, job)
    assert working() == {("sync", "desired", "true"): 1, ("sync", "desired", ""): 1}
    house.runtime.exit(house.runtime.pod(job.uid).containers[0].id, 0)
    await house.cache.refresh(job.uid)
    house.workers.wake(job.uid)
    await house.clock.advance(0)
    assert working() == {("sync", "desired", "true"): 1, ("terminated", "desired", ""): 1}

    before = ORPHANS.value()
    house.runtime.start("main", make_pod("stray"))
    await house.cache.refresh("uid-stray")
    house.workers.end_orphans(list(house.cache.pods()))

    assert working()["terminating", "runtime_only", "unknown"] == 1
    assert ORPHANS.value() == before + 1
    assert len(WORKING.sample()) == 15


async def test_a_pod_that_comes_back_under_its_uid_is_counted(house):
    pod = make_pod("web", annotations={"kubernetes.io/config.source": "file"})
    before = RESTARTED.value("true"), RESTARTED.value("")
    await house.publish(pod)

    house.workers.publish("file", [])
    house.workers.publish("file", [pod])
    await house.clock.advance(1)

    assert (RESTARTED.value("true"), RESTARTED.value("")) == (before[0] + 1, before[1])
    assert house.workers.status(pod.uid).phase == "Running"
