"""While pods end in order the shutdown waits, and nothing new comes onto the node."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import KillReason
from nodeagent.contracts.shutdown import ShutdownPeriods
from nodeagent.model.pod import Pod
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import FakeClock, admit, load_plugin, make_context, make_pod
from nodeagent_plugins.shutdown.logind import LogindError
from nodeagent_plugins.shutdown.manager import BEGAN_AT, ENDED_AT, STATE_FILE, ShutdownManager

CRITICAL = 2_000_000_000
PERIODS = ShutdownPeriods([(0, 20), (CRITICAL, 10)])
MESSAGE = "Pod was terminated in response to imminent node shutdown."


class FakeSession:
    def __init__(self, authority: FakeAuthority) -> None:
        self.shutdowns: asyncio.Queue[bool | None] = asyncio.Queue()
        self._authority = authority

    async def watch(self) -> None:
        if self._authority.preparing:
            self.shutdowns.put_nowait(True)

    async def inhibit(self) -> None:
        self._authority.log.append("inhibit")

    def release(self) -> None:
        self._authority.log.append("release")

    async def allow_delay(self, seconds: int) -> None:
        if self._authority.most < seconds:
            raise LogindError("the delay stays short")
        self._authority.log.append(f"delay {seconds}")


class FakeAuthority:
    """A logind that a test drives."""

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

    def say(self, begins: bool | None) -> None:
        self.sessions[-1].shutdowns.put_nowait(begins)


class House:
    """A node whose pods end when the test says so."""

    def __init__(self, tmp_path: Path, clock: FakeClock, periods: ShutdownPeriods = PERIODS) -> None:
        self.clock, self.authority = clock, FakeAuthority()
        self.context: AgentContext = make_context(tmp_path, clock=clock)
        self.woken = 0
        self.problems: list[str] = []
        self.context.trigger_node_status = self._wake
        self.context.flush_statuses = self._flush
        self.manager = ShutdownManager(periods, self.context, self.authority, self.problems.append)
        self.plugins: PluginManager = load_plugin(self.manager, name="shutdown.manager")
        self.pods = self.context.pods
        self.state = tmp_path / STATE_FILE
        self.loop = asyncio.create_task(self.manager.run())

    def _wake(self) -> None:
        self.woken += 1

    async def _flush(self, seconds: float) -> None:
        self.authority.log.append("flush")

    def add(self, name: str, priority: int | None = None, grace: int = 30) -> Pod:
        return self.pods.add(make_pod(name, priority=priority, termination_grace_period_seconds=grace))  # type: ignore[attr-defined]

    async def end(self, pod: Pod) -> None:
        self.pods.ended.add(pod.uid)  # type: ignore[attr-defined]
        await self.plugins.notify("nodeagent_pod_terminated", pod=pod)
        await self.clock.advance(0)

    async def say(self, begins: bool | None) -> None:
        await self.clock.advance(0)
        self.authority.say(begins)
        await self.clock.advance(0)

    @property
    def killed(self) -> dict[str, int | None]:
        return {kill.uid.removeprefix("uid-"): kill.grace_seconds for kill in self.pods.kills}  # type: ignore[attr-defined]


@pytest.fixture
async def house(tmp_path: Path, clock: FakeClock) -> AsyncIterator[House]:
    built = House(tmp_path, clock)
    yield built
    built.loop.cancel()
    await asyncio.wait({built.loop})
    await built.context.tasks.close()


@pytest.mark.row("config.shutdownGracePeriod", "config.shutdownGracePeriodCriticalPods")
async def test_critical_pods_end_when_all_others_have(house: House) -> None:
    web, dns = house.add("web"), house.add("dns", CRITICAL, grace=600)
    await house.say(True)
    assert house.killed == {"web": 20}

    await house.clock.advance(5)
    await house.end(web)
    assert house.killed == {"web": 20, "dns": 10}
    assert "release" not in house.authority.log

    await house.end(dns)

    assert house.authority.log == ["delay 30", "inhibit", "flush", "release"]
    kill = house.pods.kills[0]  # type: ignore[attr-defined]
    assert (kill.reason, kill.message, kill.status_reason) == (KillReason.SHUTDOWN, MESSAGE, "Terminated")


async def test_pods_that_do_not_end_are_left_behind_in_time(house: House, caplog: pytest.LogCaptureFixture) -> None:
    house.add("web"), house.add("dns", CRITICAL)
    with caplog.at_level(logging.WARNING):
        await house.say(True)
        await house.clock.advance(19)
        assert house.killed == {"web": 20}
        await house.clock.advance(1)
        assert house.killed == {"web": 20, "dns": 10}
        await house.clock.advance(10)

    assert house.authority.log[-1] == "release"
    assert [record.pods for record in caplog.records] == ["default/web", "default/dns"]  # type: ignore[attr-defined]


@pytest.mark.row("config.shutdownGracePeriodByPodPriority")
async def test_late_pods_take_no_time_from_those_that_are_to_come(tmp_path: Path, clock: FakeClock) -> None:
    house = House(tmp_path, clock, ShutdownPeriods([(0, 30), (10, 30)], by_priority=True))
    house.add("low", 0, 600), house.add("high", 10, 600)
    await house.say(True)
    assert "delay 30" in house.authority.log

    await house.clock.advance(15)
    assert house.killed == {"low": 30, "high": 15}
    await house.clock.advance(15)

    assert house.authority.log[-1] == "release"
    house.loop.cancel()
    await house.context.tasks.close()


async def test_a_node_without_pods_does_not_hold_the_shutdown_up(house: House) -> None:
    await house.say(True)

    assert house.authority.log[-2:] == ["flush", "release"]


async def test_hook_report_node_and_hook_admit_pod_tell_of_the_shutdown(house: House) -> None:
    await house.clock.advance(0)
    assert [answer.value for answer in await house.plugins.gather("nodeagent_report_node")] == []
    assert await admit(house.plugins, make_pod("early")) is None

    house.add("web")
    await house.say(True)

    [report] = await house.plugins.gather("nodeagent_report_node")
    assert report.value.not_ready == ("node is shutting down",)
    refused = await admit(house.plugins, make_pod("late"))
    assert refused is not None
    assert (refused.reason, refused.message) == ("NodeShutdown", "Pod was rejected as the node is shutting down.")
    assert house.woken == 1
    assert house.context.recorder.events[0].note == "Shutdown manager detected shutdown event"  # type: ignore[attr-defined]


async def test_a_shutdown_that_is_called_off_spares_the_rest_and_takes_the_lock_again(house: House) -> None:
    web = house.add("web")
    house.add("dns", CRITICAL)
    await house.say(True)
    await house.say(False)
    await house.end(web)
    await house.clock.advance(60)

    assert house.killed == {"web": 20}
    assert house.authority.log == ["delay 30", "inhibit", "release", "inhibit"]
    assert await admit(house.plugins, make_pod("late")) is None
    assert house.woken == 2


async def test_a_lost_bus_is_joined_again_and_the_lock_taken_again(house: House) -> None:
    await house.say(None)
    assert house.authority.tries == 1

    await house.clock.advance(1)

    assert house.authority.tries == 2
    assert house.authority.log == ["delay 30", "inhibit"] * 2


async def test_what_was_begun_ends_without_the_bus(house: House) -> None:
    web = house.add("web")
    house.add("dns", CRITICAL)
    await house.say(True)
    await house.say(None)

    await house.end(web)

    assert house.killed == {"web": 20, "dns": 10}
    assert house.authority.tries == 1


async def test_a_shutdown_that_was_called_off_unheard_is_over(house: House) -> None:
    web = house.add("web")
    await house.say(True)
    await house.say(None)
    await house.end(web)

    await house.clock.advance(1)

    assert await admit(house.plugins, make_pod("late")) is None


async def test_an_agent_that_starts_during_a_shutdown_ends_the_pods(tmp_path: Path, clock: FakeClock) -> None:
    house = House(tmp_path, clock)
    house.authority.preparing = True
    house.add("web")

    await house.clock.advance(0)

    assert house.killed == {"web": 20}
    assert "inhibit" not in house.authority.log
    house.loop.cancel()
    await house.context.tasks.close()


async def test_a_delay_that_stays_too_short_is_told_once_and_tried_again(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path, clock)
    house.authority.most = 5
    with caplog.at_level(logging.ERROR):
        await house.clock.advance(10)
    assert house.authority.log == []
    assert len(caplog.records) == 1
    assert house.problems == ["the delay stays short"]
    assert house.authority.tries > 2

    house.authority.most = 30
    await house.clock.advance(60)

    assert house.authority.log == ["delay 30", "inhibit"]
    assert house.problems == ["the delay stays short", ""]
    house.loop.cancel()


async def test_the_times_of_a_shutdown_are_kept(house: House) -> None:
    web = house.add("web")
    await house.say(True)
    assert json.loads(house.state.read_text()) == {"startTime": "2024-01-02T15:04:05Z", "endTime": None}
    assert (BEGAN_AT.value(), ENDED_AT.value()) == (1704207845, 0)

    await house.clock.advance(4)
    await house.end(web)

    assert json.loads(house.state.read_text())["endTime"] == "2024-01-02T15:04:09Z"
    assert (BEGAN_AT.value(), ENDED_AT.value()) == (1704207845, 1704207849)


async def test_the_times_of_the_last_shutdown_are_shown_after_a_start(tmp_path: Path, clock: FakeClock) -> None:
    state = {"startTime": "2024-01-02T15:00:00Z", "endTime": "2024-01-02T15:00:09Z"}
    (tmp_path / STATE_FILE).write_text(json.dumps(state))
    house = House(tmp_path, clock)
    await house.clock.advance(0)

    assert (BEGAN_AT.value(), ENDED_AT.value()) == (1704207600, 1704207609)
    house.loop.cancel()
