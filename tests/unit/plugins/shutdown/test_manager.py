"""Tests for the shutdown manager."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nodeagent.base.logging import v_level
from nodeagent.base.release import Release, SelectedRelease
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.persistent_volumes import VolumeState
from nodeagent.contracts.pods import KillReason
from nodeagent.contracts.shutdown import ShutdownPeriods
from nodeagent.model.pod import Pod, PodStatus
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import FakeClock, FakeVolumes, admit, load_plugin, make_context, make_pod
from nodeagent_plugins.shutdown.logind import LogindError
from nodeagent_plugins.shutdown.manager import ENDED_AT, STARTED_AT, STATE_FILE, ShutdownManager

CRITICAL = 2_000_000_000
PERIODS = ShutdownPeriods([(0, 20), (CRITICAL, 10)])
MESSAGE = "Pod was terminated in response to imminent node shutdown."


class FakeSession:
    def __init__(self, inhibitor: FakeAuthority) -> None:
        self.shutdowns: asyncio.Queue[bool | None] = asyncio.Queue()
        self._inhibitor = inhibitor

    async def watch(self) -> None:
        if self._inhibitor.preparing:
            self.shutdowns.put_nowait(True)

    async def inhibit(self) -> None:
        self._inhibitor.log.append("inhibit")

    def release(self) -> None:
        self._inhibitor.log.append("release")

    async def allow_delay(self, seconds: int) -> None:
        if self._inhibitor.most < seconds:
            raise LogindError("the delay stays short")
        self._inhibitor.log.append(f"delay {seconds}")


class FakeAuthority:
    """A logind that the test controls."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.sessions: list[FakeSession] = []
        self.preparing = False
        self.most = 3600
        self.tries = 0

    @asynccontextmanager
    async def session(self) -> AsyncIterator[FakeSession]:
        self.tries += 1
        opened = FakeSession(self)
        self.sessions.append(opened)
        yield opened

    def say(self, starting: bool | None) -> None:
        self.sessions[-1].shutdowns.put_nowait(starting)


class Harness:
    """A node whose pods terminate when the test requests it."""

    def __init__(self, tmp_path: Path, clock: FakeClock, periods: ShutdownPeriods = PERIODS) -> None:
        self.clock, self.inhibitor = clock, FakeAuthority()
        self.context: AgentContext = make_context(tmp_path, clock=clock)
        self.woken = 0
        self.problems: list[str] = []
        self.context.trigger_node_status = self._wake
        self.context.flush_statuses = self._flush
        self.manager = ShutdownManager(periods, self.context, self.inhibitor, self.problems.append)
        self.plugins: PluginManager = load_plugin(self.manager, name="shutdown.manager")
        self.pods = self.context.pods
        self.state = tmp_path / STATE_FILE
        self.loop = asyncio.create_task(self.manager.run())

    def _wake(self) -> None:
        self.woken += 1

    async def _flush(self, seconds: float) -> None:
        self.inhibitor.log.append("flush")

    def add(self, name: str, priority: int | None = None, grace: int = 30) -> Pod:
        return self.pods.add(make_pod(name, priority=priority, termination_grace_period_seconds=grace))  # type: ignore[attr-defined]

    async def end(self, pod: Pod) -> None:
        self.pods.ended.add(pod.uid)  # type: ignore[attr-defined]
        self.pods.statuses[pod.uid] = PodStatus(phase="Failed")  # type: ignore[attr-defined]
        await self.plugins.notify("nodeagent_pod_terminated", pod=pod)
        await self.clock.advance(0)

    async def say(self, starting: bool | None) -> None:
        await self.clock.advance(0)
        self.inhibitor.say(starting)
        await self.clock.advance(0)

    @property
    def killed(self) -> dict[str, int | None]:
        return {kill.uid.removeprefix("uid-"): kill.grace_seconds for kill in self.pods.kills}  # type: ignore[attr-defined]


@pytest.fixture
async def harness(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Harness]:
    built = Harness(tmp_path, clock)
    yield built
    built.loop.cancel()
    await asyncio.wait({built.loop})
    await built.context.tasks.close()


@pytest.mark.row("config.shutdownGracePeriod", "config.shutdownGracePeriodCriticalPods")
async def test_critical_pods_are_killed_after_all_others(harness: Harness) -> None:
    web, dns = harness.add("web"), harness.add("dns", CRITICAL, grace=600)
    await harness.say(True)
    assert harness.killed == {"web": 20}

    await harness.clock.advance(5)
    await harness.end(web)
    assert harness.killed == {"web": 20, "dns": 10}
    assert "release" not in harness.inhibitor.log

    await harness.end(dns)

    assert harness.inhibitor.log == ["delay 30", "inhibit", "flush", "release"]
    kill = harness.pods.kills[0]  # type: ignore[attr-defined]
    assert (kill.reason, kill.message, kill.status_reason) == (KillReason.SHUTDOWN, MESSAGE, "Terminated")


async def test_pods_that_do_not_terminate_time_out(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.add("web"), harness.add("dns", CRITICAL)
    with caplog.at_level(v_level(1)):
        await harness.say(True)
        await harness.clock.advance(19)
        assert harness.killed == {"web": 20}
        await harness.clock.advance(1)
        assert harness.killed == {"web": 20, "dns": 10}
        await harness.clock.advance(10)

    assert harness.inhibitor.log[-1] == "release"
    timeouts = [record for record in caplog.records if record.message == "Shutdown manager pod killing time out"]
    assert [record.pods for record in timeouts] == ["default/web", "default/dns"]  # type: ignore[attr-defined]


@pytest.mark.row("config.shutdownGracePeriodByPodPriority")
async def test_late_pods_do_not_reduce_the_time_of_later_groups(tmp_path: Path, clock: FakeClock) -> None:
    harness = Harness(tmp_path, clock, ShutdownPeriods([(0, 30), (10, 30)], by_priority=True))
    harness.add("low", 0, 600), harness.add("high", 10, 600)
    await harness.say(True)
    assert "delay 30" in harness.inhibitor.log

    await harness.clock.advance(15)
    assert harness.killed == {"low": 30, "high": 15}
    await harness.clock.advance(15)

    assert harness.inhibitor.log[-1] == "release"
    harness.loop.cancel()
    await harness.context.tasks.close()


class MountedVolumes(FakeVolumes):
    """A volume manager with one volume that is being unmounted."""

    def __init__(self) -> None:
        super().__init__()
        self.mounted = [VolumeState("uid-web", "v", "pv", "kind", "plugin", "Unmounting")]

    def states(self, pod_uid: str = "") -> list[VolumeState]:
        return [state for state in self.mounted if state.pod_uid == pod_uid]

    async def measure(self, pod_uid: str, volume: str) -> None:
        return None


@pytest.mark.parametrize(("minor", "waits"), [(30, False), (31, True)])
async def test_next_group_waits_for_volumes_since_1_31(harness: Harness, minor: int, waits: bool) -> None:
    harness.context.release = SelectedRelease(Release(1, minor))  # type: ignore[misc]
    volumes = harness.context.volumes = MountedVolumes()  # type: ignore[misc]
    web, _ = harness.add("web"), harness.add("dns", CRITICAL)
    await harness.say(True)
    await harness.end(web)
    await harness.clock.advance(2)
    early = "dns" in harness.killed
    volumes.mounted.clear()
    await harness.clock.advance(1)

    assert early is not waits and "dns" in harness.killed


async def test_wait_for_volumes_ends_with_the_time_of_the_group(harness: Harness) -> None:
    harness.context.release = SelectedRelease(Release(1, 31))  # type: ignore[misc]
    harness.context.volumes = MountedVolumes()  # type: ignore[misc]
    web, _ = harness.add("web"), harness.add("dns", CRITICAL)
    await harness.say(True)
    await harness.end(web)
    await harness.clock.advance(21)
    assert "dns" in harness.killed


async def test_pods_that_are_published_during_the_shutdown_are_killed(harness: Harness) -> None:
    web = harness.add("web")
    await harness.say(True)
    late = harness.add("late")

    await harness.clock.advance(5)
    await harness.end(web)
    assert harness.killed == {"web": 20, "late": 15}
    assert "release" not in harness.inhibitor.log
    await harness.end(late)

    assert harness.inhibitor.log[-2:] == ["flush", "release"]


@pytest.mark.parametrize(("published_after", "killed"), [(4.9, {"web": 15}), (None, {})])
async def test_shutdown_waits_briefly_for_the_sources_of_pods(
    harness: Harness, published_after: float | None, killed: dict[str, int]
) -> None:
    harness.pods.all_sources_ready = False  # type: ignore[attr-defined,misc]
    await harness.say(True)
    if published_after is not None:
        await harness.clock.advance(published_after)
        harness.add("web")
        harness.pods.all_sources_ready = True  # type: ignore[attr-defined,misc]

    await harness.clock.advance(5)

    assert harness.killed == killed
    assert ("release" in harness.inhibitor.log) == (not killed)


async def test_pod_that_a_plugin_has_not_admitted_again_is_killed(harness: Harness) -> None:
    web = harness.add("web")
    harness.pods.ended.add(web.uid)  # type: ignore[attr-defined]
    await harness.say(True)
    assert (harness.killed, "release" in harness.inhibitor.log) == ({"web": 20}, False)

    await harness.end(web)

    assert harness.inhibitor.log[-2:] == ["flush", "release"]


async def test_rejected_pod_does_not_delay_the_shutdown(harness: Harness) -> None:
    web = harness.add("web")
    harness.pods.ended.add(web.uid)  # type: ignore[attr-defined]
    harness.pods.statuses[web.uid] = PodStatus(phase="Failed")  # type: ignore[attr-defined]

    await harness.say(True)

    assert harness.inhibitor.log[-2:] == ["flush", "release"]


async def test_node_without_pods_does_not_delay_the_shutdown(harness: Harness) -> None:
    await harness.say(True)

    assert harness.inhibitor.log[-2:] == ["flush", "release"]


async def test_hooks_report_node_and_admit_pod_during_shutdown(harness: Harness) -> None:
    await harness.clock.advance(0)
    assert [response.value for response in await harness.plugins.gather("nodeagent_report_node")] == []
    assert await admit(harness.plugins, make_pod("early")) is None

    harness.add("web")
    await harness.say(True)

    [report] = await harness.plugins.gather("nodeagent_report_node")
    assert report.value.not_ready == ("node is shutting down",)
    rejected = await admit(harness.plugins, make_pod("late"))
    assert rejected is not None
    assert (rejected.reason, rejected.message) == ("NodeShutdown", "Pod was rejected as the node is shutting down.")
    assert harness.woken == 1
    assert harness.context.recorder.events[0].note == "Shutdown manager detected shutdown event"  # type: ignore[attr-defined]


async def test_cancelled_shutdown_keeps_the_remaining_pods_and_restores_the_lock(harness: Harness) -> None:
    web = harness.add("web")
    harness.add("dns", CRITICAL)
    await harness.say(True)
    await harness.say(False)
    await harness.end(web)
    await harness.clock.advance(60)

    assert harness.killed == {"web": 20}
    assert harness.inhibitor.log == ["delay 30", "inhibit", "release", "inhibit"]
    assert await admit(harness.plugins, make_pod("late")) is None
    assert harness.woken == 2


async def test_lost_bus_is_reconnected_and_the_lock_restored(harness: Harness) -> None:
    await harness.say(None)
    assert harness.inhibitor.tries == 1

    await harness.clock.advance(1)

    assert harness.inhibitor.tries == 2
    assert harness.inhibitor.log == ["delay 30", "inhibit"] * 2


async def test_termination_completes_without_the_bus(harness: Harness) -> None:
    web = harness.add("web")
    harness.add("dns", CRITICAL)
    await harness.say(True)
    await harness.say(None)

    await harness.end(web)

    assert harness.killed == {"web": 20, "dns": 10}
    assert harness.inhibitor.tries == 1


async def test_shutdown_cancelled_during_a_disconnect_is_detected(harness: Harness) -> None:
    web = harness.add("web")
    await harness.say(True)
    await harness.say(None)
    await harness.end(web)

    await harness.clock.advance(1)

    assert await admit(harness.plugins, make_pod("late")) is None


async def test_agent_that_starts_during_a_shutdown_kills_the_pods(tmp_path: Path, clock: FakeClock) -> None:
    harness = Harness(tmp_path, clock)
    harness.inhibitor.preparing = True
    harness.add("web")

    await harness.clock.advance(0)

    assert harness.killed == {"web": 20}
    assert "inhibit" not in harness.inhibitor.log
    harness.loop.cancel()
    await harness.context.tasks.close()


async def test_short_inhibit_delay_is_logged_once_and_retried(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness(tmp_path, clock)
    harness.inhibitor.most = 5
    with caplog.at_level(logging.ERROR):
        await harness.clock.advance(10)
    assert harness.inhibitor.log == []
    assert len(caplog.records) == 1
    assert harness.problems == ["the delay stays short"]
    assert harness.inhibitor.tries > 2

    harness.inhibitor.most = 30
    await harness.clock.advance(60)

    assert harness.inhibitor.log == ["delay 30", "inhibit"]
    assert harness.problems == ["the delay stays short", ""]
    harness.loop.cancel()


async def test_shutdown_times_are_stored(harness: Harness) -> None:
    web = harness.add("web")
    await harness.say(True)
    assert json.loads(harness.state.read_text()) == {"startTime": "2024-01-02T15:04:05Z", "endTime": None}
    assert (STARTED_AT.value(), ENDED_AT.value()) == (1704207845, 0)

    await harness.clock.advance(4)
    await harness.end(web)

    assert json.loads(harness.state.read_text())["endTime"] == "2024-01-02T15:04:09Z"
    assert (STARTED_AT.value(), ENDED_AT.value()) == (1704207845, 1704207849)


async def test_times_of_the_last_shutdown_are_exposed_after_a_start(tmp_path: Path, clock: FakeClock) -> None:
    state = {"startTime": "2024-01-02T15:00:00Z", "endTime": "2024-01-02T15:00:09Z"}
    (tmp_path / STATE_FILE).write_text(json.dumps(state))
    harness = Harness(tmp_path, clock)
    await harness.clock.advance(0)

    assert (STARTED_AT.value(), ENDED_AT.value()) == (1704207600, 1704207609)
    harness.loop.cancel()
