"""Tests for pod diagnostics: each cause is reported at its stage, with remedy and next retry."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from nodeagent import hookimpl
from nodeagent.contracts.claims import ClaimedDeviceHealth
from nodeagent.contracts.devices import DeviceHealth
from nodeagent.contracts.diagnostics import PodDeviceLine, Stage, StageState, WhyRequest
from nodeagent.contracts.events import EventType
from nodeagent.contracts.images import PullInProgress
from nodeagent.contracts.persistent_volumes import VolumeState
from nodeagent.contracts.pods import Rejection, SyncOutcome, WaitingReason
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus, RuntimePod, SandboxStatus
from nodeagent.errors import ClaimError, DevicesNotReady, RuntimeUnavailable, VolumeError
from nodeagent.event_journal import MAX_EVENTS_PER_POD, MAX_PODS, EventJournal
from nodeagent.model.meta import ObjectReference
from nodeagent.model.pod import PodStatus
from nodeagent.podworker.explain import LONG_SECONDS, Explainer, _failure
from nodeagent.podworker.remedies import remedy
from nodeagent.testing import FakeRecorder, make_container, make_context, make_pod
from tests.unit.podworker.harness import Harness, living


class ExplainerHarness(Harness):
    """Harness with an explainer."""

    def __init__(self, clock, tmp_path, *plugins):
        super().__init__(clock, *plugins)
        self.recorder = EventJournal(FakeRecorder(), clock)
        self.context = make_context(tmp_path, clock=clock, pods=self.workers, recorder=self.recorder)
        self.explainer = Explainer(self.context, self.workers, self.recorder, self.plugins)

    async def why(self, name="web"):
        return await self.explainer.why(WhyRequest(namespace="default", name=name))

    def happened(self, pod, reason, note, field_path=""):
        self.recorder.record(pod.reference(field_path), EventType.WARNING, reason, note)


class Waits:
    """Syncer whose progress a test controls."""

    def __init__(self, error=None, waiting=None, retry=None):
        self.outcome = SyncOutcome(error=error, waiting=waiting or {}, retry_seconds=retry)

    async def sync_pod(self, pod, status, observed):
        return self.outcome

    async def sync_terminating(self, pod, observed, grace_seconds):
        return SyncOutcome()

    async def sync_stopped(self, pod):
        pass

    async def sync_terminated(self, pod, observed):
        pass


def states(found):
    return {stage.stage: stage.state for stage in found.stages}


def sandbox(pod):
    return SandboxStatus(
        id="s",
        name=pod.name,
        uid=pod.uid,
        namespace=pod.namespace,
        attempt=0,
        ready=True,
        created_at=10**9,
        ips=["192.0.2.7"],
    )


def observe(harness, pod, *containers):
    """Add the pod with a ready sandbox to the runtime."""
    snapshot = RuntimePod(pod.uid, pod.name, pod.namespace, sandboxes=[sandbox(pod)], containers=containers)
    harness.cache.get = lambda uid: snapshot if uid == pod.uid else None


def container(state=ContainerState.RUNNING, **fields):
    plain = {
        "id": "c", "name": "main", "attempt": 0, "state": state, "created_at": 10**9, "started_at": 2 * 10**9,
        "finished_at": 0, "exit_code": 0, "image": "i", "image_ref": "i",
    }  # fmt: skip
    return RuntimeContainerStatus(**{**plain, **fields})


async def test_ready_pod_has_completed_every_stage(clock, tmp_path):
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod()
    harness.syncer = Waits()
    observe(harness, pod, container())
    async with living(harness):
        await harness.publish(pod)

        found = await harness.why()

    assert found.ready and found.blocking is None and not found.cause
    assert set(states(found).values()) == {StageState.DONE}
    assert list(states(found)) == [Stage.ADMIT, Stage.VOLUMES, Stage.PULL, Stage.SANDBOX, Stage.START, Stage.READY]


async def test_slow_admission_plugin_is_named(clock, tmp_path):
    class Slow:
        @hookimpl
        async def nodeagent_admit_pod(self, pod):
            await asyncio.Event().wait()

    harness = ExplainerHarness(clock, tmp_path, Slow())
    async with living(harness):
        await harness.publish(make_pod())

        found = await harness.why()

    assert (found.blocking, found.blocked) == (Stage.ADMIT, False)
    assert re.search(
        r"admission of the pod is in progress, waiting for plugin \S+ \(nodeagent_admit_pod\) ", found.cause
    )


async def test_plugin_that_decides_on_the_pod_is_named_before_others(clock, tmp_path):
    class Slow:
        def __init__(self, name):
            self.name = name

        @hookimpl
        async def nodeagent_admit_pod(self, pod):
            if pod.name == self.name:
                await asyncio.Event().wait()

    names = ["first", "second"]
    harness = ExplainerHarness(clock, tmp_path, *map(Slow, names))
    async with living(harness):
        await harness.publish(*map(make_pod, names))

        causes = [(await harness.why(name)).cause for name in names]

    assert len({re.search(r"waiting for plugin (\S+)", cause)[1] for cause in causes}) == 2


async def test_rejected_pod_names_the_plugin(clock, tmp_path):
    class Policy:
        @hookimpl
        async def nodeagent_admit_pod(self, pod):
            return Rejection("OutOfcpu", "Node didn't have enough resource: cpu")

    harness = ExplainerHarness(clock, tmp_path, Policy())
    async with living(harness):
        await harness.publish(make_pod())

        found = await harness.why()

    assert (found.blocking, found.blocked, found.reason, found.plugin) == (Stage.ADMIT, True, "OutOfcpu", "plugin0")
    assert "enough resource: cpu" in found.cause
    assert found.remedy == remedy("OutOfcpu") != ""
    assert found.next_try_seconds is None


async def test_blocked_pod_reports_plugin_and_next_retry(clock, tmp_path):
    class Gate:
        @hookimpl
        async def nodeagent_permit_pod(self, pod):
            return Rejection("Closed", "not before noon")

    harness = ExplainerHarness(clock, tmp_path, Gate())
    async with living(harness):
        await harness.publish(make_pod())
        await clock.advance(1)

        found = await harness.why()

    assert (found.blocking, found.reason, found.plugin) == (Stage.ADMIT, "Closed", "plugin0")
    assert found.cause == "not before noon"
    assert 0 < found.next_try_seconds <= 15
    assert "plugin0" in found.remedy


async def test_mount_failure_is_the_cause(clock, tmp_path):
    harness = ExplainerHarness(clock, tmp_path)
    harness.syncer = Waits(VolumeError('configmap "site" not found'))
    async with living(harness):
        await harness.publish(make_pod(volumes=[{"name": "v", "configMap": {"name": "site"}}]))
        await clock.advance(1)

        found = await harness.why()

    assert (found.blocking, found.reason) == (Stage.VOLUMES, "FailedMount")
    assert "configmap" in found.cause and found.remedy == remedy("FailedMount")
    assert states(found)[Stage.SANDBOX] is StageState.WAITING


async def test_volume_setup_in_progress_reports_duration(clock, tmp_path):
    harness = ExplainerHarness(clock, tmp_path)
    harness.syncer.hang = True
    mount = {"name": "data", "mountPath": "/data"}
    started = clock.now()
    harness.context.volumes.pending = lambda uid: {"data": started}
    async with living(harness):
        pod = make_pod(containers=[make_container(volume_mounts=[mount])], volumes=[{"name": "data", "emptyDir": {}}])
        await harness.publish(pod)
        await clock.advance(40)

        found = await harness.why()

    assert (found.blocking, found.blocked, found.next_try_seconds) == (Stage.VOLUMES, False, 0)
    assert found.cause == "setting up: data for 40 s"


async def test_plugin_that_the_sync_waits_for_is_named_at_the_stage_in_progress(clock, tmp_path):
    class Slow:
        @hookimpl
        async def nodeagent_mutate_sandbox(self, pod, sandbox):
            await asyncio.Event().wait()

    harness = ExplainerHarness(clock, tmp_path)
    harness.plugins.register(Slow(), name="slow", origin="acme-slow")
    harness.syncer.hang = True
    pod = make_pod(
        containers=[make_container(volume_mounts=[{"name": "data", "mountPath": "/data"}])],
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    mounted = VolumeState(pod.uid, "data", "data", "empty", "empty", "Mounted")
    harness.context.volumes.states = lambda uid="": [mounted]
    harness.context.volumes.measure = lambda *_: None  # Part of the protocol of volume managers with states.
    async with living(harness):
        await harness.publish(pod)
        call = asyncio.create_task(harness.plugins.call_chain("nodeagent_mutate_sandbox", "sandbox", None, pod=pod))
        await clock.advance(1)

        found = await harness.why()
        call.cancel()
        await asyncio.wait([call])

    assert found.blocking is Stage.SANDBOX
    assert "waiting for plugin slow (nodeagent_mutate_sandbox) for" in found.cause


async def test_network_not_ready_is_the_cause(clock, tmp_path):
    harness = ExplainerHarness(clock, tmp_path)
    harness.network_problem = "cni plugin not initialized"
    async with living(harness):
        await harness.publish(make_pod())

        found = await harness.why()

    assert (found.blocking, found.reason, found.cause) == (
        Stage.SANDBOX,
        "NetworkNotReady",
        "cni plugin not initialized",
    )
    assert "CNI" in found.remedy


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeUnavailable("no answer"), "RuntimeUnavailable"),
        (ClaimError("DRA driver gpu.example.com is not registered"), "FailedPrepareDynamicResources"),
        (ValueError("pasta"), "Error"),
    ],
)
async def test_sandbox_failure_is_the_cause(clock, tmp_path, error, reason):
    harness = ExplainerHarness(clock, tmp_path)
    harness.syncer.error = error
    async with living(harness):
        await harness.publish(make_pod())

        found = await harness.why()

    assert (found.blocking, found.blocked, found.reason) == (Stage.SANDBOX, True, reason)
    assert found.next_try_seconds is not None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DevicesNotReady("waiting for device plugins: example.com/gpu: not registered"), "WaitingForDevices"),
        (ClaimError("DRA driver gpu.example.com is not registered"), "FailedPrepareDynamicResources"),
    ],
)
async def test_condition_of_a_pod_with_volumes_names_the_devices_it_waits_for(clock, tmp_path, error, reason):
    harness = ExplainerHarness(clock, tmp_path)
    harness.status._note = harness.explainer.note
    harness.syncer.error = error
    mounted = make_container(volume_mounts=[{"name": "data", "mountPath": "/data"}])
    pod = make_pod(containers=[mounted], volumes=[{"name": "data", "emptyDir": {}}])
    async with living(harness):
        await harness.publish(pod)
        found = await harness.why()
        await clock.advance(LONG_SECONDS + 20)
        ready = next(c for c in harness.status.get(pod.uid).conditions if c.type == "Ready")

    assert (found.blocking, found.reason, found.cause) == (Stage.SANDBOX, reason, str(error))
    assert states(found)[Stage.VOLUMES] is StageState.DONE
    assert ready.message == f"containers with unready status: [main]; sandbox: {error}"


async def test_failed_pull_reports_next_retry(clock, tmp_path):
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod()
    harness.syncer = Waits(
        waiting={"main": WaitingReason("ImagePullBackOff", 'Back-off pulling image "x"')}, retry=10.0
    )
    harness.context.puller.pulls = lambda: ()
    harness.context.puller.backoff_seconds_left = lambda pod, container: 35.0
    observe(harness, pod)
    async with living(harness):
        await harness.publish(pod)

        found = await harness.why()

    assert (found.blocking, found.reason) == (Stage.PULL, "ImagePullBackOff")
    assert found.cause == 'main: Back-off pulling image "x"'
    assert found.next_try_seconds == 35.0
    assert "nodeagent creds test" in found.remedy


@pytest.mark.parametrize(
    ("pull", "text"),
    [
        ({"queued": True}, "queued for 25 s"),
        ({"queued": False}, "pulling: i for 25 s"),
        (
            {"queued": False, "resolving_credentials": True},
            "resolving credentials of i for 25 s",
        ),
    ],
)
async def test_pull_in_progress_is_reported(clock, tmp_path, pull, text):
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod()
    harness.syncer.hang = True
    in_progress = PullInProgress("i", clock.now(), pods=("default/web",), **pull)
    harness.context.puller.pulls = lambda: (in_progress,)
    harness.context.puller.backoff_seconds_left = lambda pod, container: 0.0
    observe(harness, pod)
    async with living(harness):
        await harness.publish(pod)
        await clock.advance(25)

        found = await harness.why()

    assert (found.blocking, found.blocked) == (Stage.PULL, False)
    assert text in found.cause


async def test_crash_loop_reports_exit_code(clock, tmp_path):
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod()
    harness.syncer = Waits(waiting={"main": WaitingReason("CrashLoopBackOff", "back-off 20s restarting")}, retry=20.0)
    observe(harness, pod, container(ContainerState.EXITED, exit_code=3, finished_at=3 * 10**9, reason="Error"))
    async with living(harness):
        await harness.publish(pod)

        found = await harness.why()

    assert (found.blocking, found.reason) == (Stage.START, "CrashLoopBackOff")
    assert "exit code 3" in found.cause
    assert found.next_try_seconds == pytest.approx(20, abs=0.1)
    assert "--previous" in found.remedy


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "CreateContainerError"])
async def test_create_failure_blocks_the_start_stage_not_the_pull(clock, tmp_path, reason):
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod()
    harness.syncer = Waits(waiting={"main": WaitingReason(reason, 'configmap "site" not found')}, retry=12.0)
    observe(harness, pod)
    async with living(harness):
        await harness.publish(pod)

        found = await harness.why()

    assert (found.blocking, found.blocked, found.reason) == (Stage.START, True, reason)
    assert found.cause == 'main: configmap "site" not found'
    assert found.remedy == remedy(reason) != ""
    assert states(found)[Stage.PULL] is StageState.DONE


async def test_failed_pod_has_no_stage_in_progress_and_a_cause(clock, tmp_path):
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod(restart_policy="Never")
    harness.syncer = Waits()
    ended = container(ContainerState.EXITED, exit_code=3, finished_at=3 * 10**9, reason="Error")
    gone = dataclasses.replace(sandbox(pod), ready=False)
    snapshot = RuntimePod(pod.uid, pod.name, pod.namespace, sandboxes=[gone], containers=(ended,))
    harness.cache.get = lambda uid: snapshot
    harness.cache.refresh = lambda uid, touched=None: _soon(snapshot)
    async with living(harness):
        await harness.publish(pod)
        await clock.advance(1)

        found = await harness.why()
        (line,) = harness.explainer.lines()

    assert (found.phase, found.blocking) == ("Failed", None)
    assert StageState.WORKING not in states(found).values()
    assert line.cause == "main exited with code 3"


async def test_command_that_cannot_start_is_named(clock, tmp_path):
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod()
    harness.syncer = Waits(waiting={"main": WaitingReason("CrashLoopBackOff", "back-off 20s restarting")}, retry=20.0)
    ended = container(
        ContainerState.EXITED, exit_code=128, finished_at=3 * 10**9, reason="StartError", message="/nope: not found\n"
    )
    observe(harness, pod, ended)
    async with living(harness):
        await harness.publish(pod)

        found = await harness.why()

    assert found.cause.endswith("last exit: exit code 128 (StartError: /nope: not found)")


async def test_failing_probe_is_the_cause(clock, tmp_path):
    probed = make_container(readiness_probe={"exec": {"command": ["check"]}})
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod(containers=[probed])
    harness.status._probes = lambda container_id, kind: kind  # no probe has succeeded
    harness.syncer = Waits()
    observe(harness, pod, container())
    async with living(harness):
        await harness.publish(pod)
        for _ in range(3):
            harness.happened(pod, "Unhealthy", "Readiness probe failed: 503", "spec.containers{main}")

        found = await harness.why()

    assert (found.blocking, found.reason) == (Stage.READY, "Unhealthy")
    assert found.cause.startswith("main: Readiness probe failed: 503 (3 times")
    assert [(event.reason, event.count) for event in found.events] == [("Unhealthy", 3)]


async def test_unready_pod_without_other_cause_has_no_next_retry(clock, tmp_path):
    probed = make_container(readiness_probe={"exec": {"command": ["check"]}})
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod(containers=[probed])
    harness.status._probes = lambda container_id, kind: kind  # no probe has succeeded
    harness.syncer = Waits()
    harness.context.puller.pulls = lambda: ()
    harness.context.puller.backoff_seconds_left = lambda pod, container: 35.0
    observe(harness, pod, container())
    async with living(harness):
        await harness.publish(pod)

        found = await harness.why()

    assert (found.blocking, found.next_try_seconds) == (Stage.READY, None)


async def test_failed_pull_without_backoff_is_retried_with_the_sync(clock, tmp_path):
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod()
    harness.syncer = Waits(waiting={"main": WaitingReason("ErrImagePull", "no such host")}, retry=10.0)
    observe(harness, pod)
    async with living(harness):
        await harness.publish(pod)
        found = await harness.why()
        harness.context.puller.pulls = lambda: ()
        harness.context.puller.backoff_seconds_left = lambda pod, container: 0.0
        reporting = await harness.why()

    assert (found.blocking, found.next_try_seconds) == (Stage.PULL, 10.0)
    assert reporting.next_try_seconds == 10.0


async def test_terminating_pod_lists_running_containers(clock, tmp_path):
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod()
    harness.syncer = Waits()
    observe(harness, pod, container())
    harness.cache.refresh = lambda uid, touched=None: _soon(harness.cache.get(uid))
    async with living(harness):
        await harness.publish(pod)
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=datetime(2024, 1, 1, tzinfo=UTC))
        await harness.publish(msgspec.structs.replace(pod, metadata=metadata))
        await clock.advance(1)

        found = await harness.why()

    assert (found.blocking, found.ready) == (Stage.END, False)
    assert "containers are still running" in found.cause


async def test_blocked_pods_are_listed_first_and_finished_ones_last(clock, tmp_path):
    class Policy:
        @hookimpl
        async def nodeagent_permit_pod(self, pod):
            return Rejection("Closed", "not before noon") if pod.name == "c" else None

        @hookimpl
        async def nodeagent_admit_pod(self, pod):
            if pod.name == "d":
                await asyncio.Event().wait()

    harness = ExplainerHarness(clock, tmp_path, Policy())
    job = make_pod("b", restart_policy="Never")
    async with living(harness):
        await harness.publish(make_pod("a"), job, make_pod("c"), make_pod("d"))
        harness.runtime.exit(harness.runtime.pod(job.uid).containers[0].id, 0)
        await harness.cache.refresh(job.uid)
        harness.workers.trigger_sync(job.uid)
        await clock.advance(1)

        lines = harness.explainer.lines()

    assert [(line.name, line.blocked, line.ready, line.stage) for line in lines] == [
        ("c", True, False, Stage.ADMIT),
        ("d", False, False, Stage.ADMIT),
        ("a", False, True, None),
        ("b", False, False, None),
    ]


async def test_unknown_pod_names_pending_sources(clock, tmp_path):
    harness = ExplainerHarness(clock, tmp_path)
    async with living(harness):
        with pytest.raises(ValueError, match="have not published yet: file"):
            await harness.why("nobody")
        await harness.publish(make_pod(namespace="other"))
        with pytest.raises(ValueError, match="a pod of this name exists in namespace other"):
            await harness.why()


async def test_long_wait_appears_in_pod_conditions(clock, tmp_path):
    harness, pod = ExplainerHarness(clock, tmp_path), make_pod()
    harness.status._note = harness.explainer.note
    harness.syncer = Waits(VolumeError('configmap "site" not found at try 1'))

    def message():
        return next(c.message for c in harness.status.get(pod.uid).conditions if c.type == "Ready")

    async with living(harness):
        await harness.publish(pod)
        assert message() == "containers with unready status: [main]"

        await clock.advance(LONG_SECONDS + 20)
        reported = message()
        harness.syncer = Waits(VolumeError('configmap "site" not found at try 2'))
        await clock.advance(40)

        assert reported == 'containers with unready status: [main]; volumes: configmap "site" not found at try 1'
        assert message() == reported

        harness.syncer = Waits()
        observe(harness, pod, container())
        harness.workers.trigger_sync(pod.uid)
        await clock.advance(1)
        assert message() == ""


async def test_blocked_pods_are_listed_first(clock, tmp_path):
    harness = ExplainerHarness(clock, tmp_path)
    async with living(harness):
        await harness.publish(make_pod("a"))
        harness.network_problem = "no network"
        await harness.publish(make_pod("a"), make_pod("z"))

        lines = harness.explainer.lines()

    assert [(line.name, line.blocked) for line in lines] == [("z", True), ("a", False)]


def test_event_journal_keeps_latest_events_of_latest_pods(clock):
    recorder = FakeRecorder()
    journal = EventJournal(recorder, clock)
    for number in range(MAX_EVENTS_PER_POD + 3):
        journal.record(ObjectReference(kind="Pod", uid="a"), EventType.NORMAL, "R", f"note {number}")
    journal.record(ObjectReference(kind="Node", uid="n"), EventType.NORMAL, "R", "of the node")
    for number in range(MAX_PODS):
        journal.record(ObjectReference(kind="Pod", uid=f"p{number}"), EventType.NORMAL, "R", "note")

    assert len(recorder.events) == MAX_EVENTS_PER_POD + 4 + MAX_PODS
    assert not journal.of("n") and not journal.of("a")
    assert journal.of("p0")


async def test_devices_of_containers_are_listed(clock, tmp_path):
    class Claims:
        def devices(self, pod, container):
            return [ClaimedDeviceHealth("claim:gpu", [DeviceHealth("example.com/gpu=0", "Unhealthy", "too hot")])]

    harness = ExplainerHarness(clock, tmp_path)
    harness.context = dataclasses.replace(harness.context, claims=Claims())
    harness.explainer = Explainer(harness.context, harness.workers, harness.recorder, harness.plugins)
    async with living(harness):
        await harness.publish(make_pod())

        found = await harness.why()

    assert found.devices == [PodDeviceLine("main", "claim:gpu", "example.com/gpu=0", "Unhealthy", "too hot")]


async def _soon(value):
    return value


async def test_block_devices_count_as_volumes(clock, tmp_path):
    harness = ExplainerHarness(clock, tmp_path)
    harness.syncer.hang = True
    device = {"name": "disk", "devicePath": "/dev/disk"}
    volume = {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}
    async with living(harness):
        await harness.publish(
            make_pod(containers=[make_container(volume_devices=[device])], volumes=[volume], uid="uid-disk")
        )
        await clock.advance(1)
        found = await harness.why()
    assert found.blocking is Stage.VOLUMES and found.cause == "1 to set up"


async def test_note_has_the_time_since_which_the_pod_is_not_ready(clock, tmp_path):
    harness = ExplainerHarness(clock, tmp_path)
    harness.syncer = Waits(VolumeError("no volume"))
    async with living(harness):
        await harness.publish(make_pod())
        await clock.advance(1)
        since = clock.wall() - timedelta(seconds=LONG_SECONDS)
        recent, long = ({"lastTransitionTime": (since + timedelta(seconds=more)).isoformat()} for more in (1, 0))

        def note(**conditions):
            listed = [{"type": name, **fields} for name, fields in conditions.items()]
            status = msgspec.convert({"phase": "Pending", "conditions": listed}, PodStatus)
            return harness.explainer.note(make_pod(status=status))

        assert note(Ready={"status": "False", **long}) == "volumes: no volume"
        assert note(Ready={"status": "False", **recent}, ContainersReady={"status": "False", **long}) == ""
        assert note(ContainersReady={"status": "False", **long}, Ready={"status": "True", **long}) == ""
        assert note() == ""


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"reason": "Evicted", "message": "no memory"}, "Evicted: no memory"),
        ({"reason": "Evicted"}, "Evicted"),
        ({"message": "no memory"}, "no memory"),
        ({}, "first exited with code 2, main exited with code 3"),
    ],
)
def test_failed_pod_has_the_reason_of_its_status_or_the_exit_codes(fields, cause):
    def ended(name, code):
        return {
            "name": name,
            "ready": False,
            "restartCount": 0,
            "image": "",
            "imageID": "",
            "state": {"terminated": {"exitCode": code}},
        }

    statuses = {"initContainerStatuses": [ended("first", 2)]}
    statuses["containerStatuses"] = [ended("main", 3), ended("other", 0), {**ended("x", 0), "state": {}}]
    assert _failure(msgspec.convert({"phase": "Failed", **statuses, **fields}, PodStatus)) == cause
