"""Tests for admission: a plugin that does not respond delays only the pods that it decides on."""

import asyncio

import pytest
from msgspec.structs import replace

from nodeagent import hookimpl
from nodeagent.contracts.pods import KillReason, Rejection
from nodeagent.errors import PluginTimeout
from nodeagent.pluginmanager import QuarantinePolicy
from nodeagent.podworker.admission import FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS
from nodeagent.testing import make_pod
from tests.unit.podworker.harness import Harness, deleted, living


class Independent:
    """Plugin that decides without regard to other pods, and hangs for the pod ``slow`` until *respond* is set."""

    def __init__(self, result=None):
        self.result, self.respond, self.calls = result, asyncio.Event(), []

    @hookimpl
    async def nodeagent_admit_pod(self, pod):
        self.calls.append(pod.name)
        if pod.name == "slow":
            await self.respond.wait()
        return self.result


class Unresponsive:
    """Plugin that exceeds its deadline for the pod ``slow`` in the first *failures* calls."""

    def __init__(self, failures):
        self.failures = failures

    @hookimpl
    async def nodeagent_admit_pod(self, pod, active):
        if pod.name == "slow" and self.failures:
            self.failures -= 1
            raise PluginTimeout("plugin0", "nodeagent_admit_pod exceeded its deadline of 10 s")


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("result", [None, Rejection("NotHere", "no")])
async def test_hanging_plugin_delays_only_its_pod(clock, result):
    plugin = Independent(result)
    async with living(Harness(clock, plugin)) as harness:
        slow, other = make_pod("slow"), make_pod("other")
        await harness.publish(slow, other)
        await settle()
        assert plugin.calls == ["slow", "other"]
        assert harness.workers.status(slow.uid) is None
        assert harness.workers.status(other.uid).phase == ("Failed" if result else "Running")

        plugin.respond.set()
        await settle()

        assert (harness.workers.status(slow.uid).reason == "NotHere") == (result is not None)
        assert ("slow" in harness.names("sync")) == (result is None)


async def test_pod_waits_for_a_plugin_that_exceeds_its_deadline(clock):
    async with living(Harness(clock, Unresponsive(2))) as harness:
        slow, other = make_pod("slow"), make_pod("other")
        await harness.publish(slow, other)
        assert harness.names("sync") == ["other"]
        assert "exceeded its deadline" in harness.workers.admission_problem(slow.uid)

        for delay in (FIRST_RETRY_SECONDS, 2 * FIRST_RETRY_SECONDS):
            await clock.advance(1.2 * delay)
            await settle()

        assert "slow" in harness.names("sync")
        assert harness.recorder.reasons() == ["AdmissionDelayed"]
        assert harness.workers.admission_problem(slow.uid) == ""


async def test_pod_waits_while_a_required_plugin_is_in_quarantine(clock):
    harness = Harness(clock, Unresponsive(1))
    harness.plugins.contain(QuarantinePolicy(failures=1, retry_seconds=3600), ["plugin0"])
    async with living(harness):
        slow = make_pod("slow")
        await harness.publish(slow)
        for _ in range(5):
            await clock.advance(2 * MAX_RETRY_SECONDS)
            await settle()

        assert harness.names("sync") == []
        assert "failed repeatedly" in harness.workers.admission_problem(slow.uid)
        assert harness.recorder.reasons().count("AdmissionDelayed") == 1


async def test_deleted_pod_does_not_wait_for_its_admission(clock):
    async with living(Harness(clock, Independent())) as harness:
        slow = make_pod("slow")
        await harness.publish(slow)
        await settle()

        await harness.publish(deleted(slow, 30))
        await settle()
        await clock.advance(1)

        assert harness.names("terminated") == ["slow"]


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_killed_pod_does_not_wait_for_its_admission(clock, is_waiting):
    plugin = Independent()
    async with living(Harness(clock, plugin)) as harness:
        slow = make_pod("slow")
        if is_waiting:
            await harness.publish(slow)
            await settle()
        else:
            harness.workers.publish("api", [slow])

        harness.workers.kill(slow.uid, KillReason.SHUTDOWN, "shuts down", status_reason="Terminated")
        await settle()
        await clock.advance(1)

        assert harness.names("terminated") == ["slow"]
        status = harness.workers.status(slow.uid)
        assert (status.phase, status.reason, status.message) == ("Failed", "Terminated", "shuts down")
        plugin.respond.set()
        await settle()
        assert harness.names("sync") == []


async def test_removed_pod_is_not_started_when_the_plugin_responds(clock):
    plugin = Independent()
    async with living(Harness(clock, plugin)) as harness:
        await harness.publish(make_pod("slow"))
        await settle()
        await harness.publish()

        plugin.respond.set()
        await settle()

        assert harness.names("sync") == []


async def test_change_of_a_waiting_pod_takes_effect_when_it_is_admitted(clock):
    plugin = Independent()
    async with living(Harness(clock, plugin)) as harness:
        slow = make_pod("slow")
        await harness.publish(slow)
        await settle()
        await harness.publish(replace(slow, metadata=replace(slow.metadata, labels={"new": "1"})))

        plugin.respond.set()
        await settle()

        assert harness.workers.get(slow.uid).metadata.labels == {"new": "1"}


class Delaying:
    """Plugin that delays its decision on the pod ``slow`` twice."""

    def __init__(self):
        self.delays = 2

    @hookimpl
    async def nodeagent_admit_pod(self, pod):
        if pod.name == "slow" and self.delays:
            self.delays -= 1
            return Rejection("Later", "no space yet", retry=True)
        return None


async def test_pod_waits_while_a_plugin_delays_its_decision(clock):
    async with living(Harness(clock, Delaying())) as harness:
        slow, other = make_pod("slow"), make_pod("other")
        await harness.publish(slow, other)
        await settle()
        assert harness.names("sync") == ["other"]
        assert harness.workers.admission_problem(slow.uid) == "plugin plugin0: Later: no space yet"

        for delay in (FIRST_RETRY_SECONDS, 2 * FIRST_RETRY_SECONDS):
            await clock.advance(1.2 * delay)
            await settle()

        assert "slow" in harness.names("sync")
        assert harness.plugins.calls.quarantines == {}
