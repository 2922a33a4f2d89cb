"""Tests for hooks that pod workers call: admission, permission to run, and notifications."""

import asyncio

import pytest

from nodeagent import hookimpl
from nodeagent.contracts.pods import Rejection
from nodeagent.podworker.metrics import ADMISSION_REJECTIONS
from nodeagent.testing import make_pod
from tests.unit.podworker.harness import Harness, deleted, living


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
