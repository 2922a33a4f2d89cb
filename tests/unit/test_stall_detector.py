"""Tests for the stall detector: blocking code is named, and blocking hooks of third-party plugins are interrupted."""

import asyncio
import signal
import threading
import time

import pytest

from nodeagent import hookimpl
from nodeagent.errors import PluginError
from nodeagent.plugin_containment import StallPolicy
from nodeagent.pluginmanager import PluginManager
from nodeagent.stall_detector import INTERRUPT, StallDetector

POLICY = StallPolicy(report_seconds=0.1, interrupt_seconds=0.2, watchdog_seconds=60)


class Sleeps:
    def __init__(self, seconds):
        self.seconds = seconds

    @hookimpl
    async def nodeagent_permit_pod(self, pod):
        time.sleep(self.seconds)


class Spins:
    @hookimpl
    async def nodeagent_permit_pod(self, pod):
        while True:
            pass


class Watched:
    def __init__(self, policy=POLICY):
        self.plugins, self.stalls, self.pings, self.policy = PluginManager(), [], [], policy
        self.ended = asyncio.Event()

    async def call(self, plugin, *, origin=""):
        self.plugins.register(plugin, name="slow", origin=origin)
        await self.run(self.plugins.call_first("nodeagent_permit_pod", pod=None))

    async def run(self, blocks):
        detector = StallDetector(self.plugins, self.policy, ended=self.record, ping=lambda: self.pings.append(1))
        task = asyncio.ensure_future(detector.run())
        await asyncio.sleep(0)
        try:
            await blocks
            await asyncio.wait_for(self.ended.wait(), 30)
        finally:
            task.cancel()

    def record(self, stall):
        self.stalls.append(stall)
        self.ended.set()


@pytest.mark.parametrize("plugin", [Sleeps(30), Spins()])
async def test_blocking_hook_is_interrupted_and_named(plugin):
    watched = Watched()

    with pytest.raises(PluginError, match=r"plugin slow: nodeagent_permit_pod blocked the event loop .*stall_detector"):
        await watched.call(plugin)
    await watched.ended.wait()

    (stall,) = watched.stalls
    assert (stall.plugin, stall.hook, stall.interrupted) == ("slow", "nodeagent_permit_pod", True)
    assert "test_stall_detector.py:" in stall.location
    assert watched.pings


async def test_bundled_plugin_is_reported_and_not_interrupted():
    watched = Watched()

    await watched.call(Sleeps(0.6), origin="nodeagent")

    assert [(stall.plugin, stall.interrupted) for stall in watched.stalls] == [("slow", False)]


async def test_blocking_code_outside_of_hooks_is_located():
    async def blocks():
        time.sleep(0.5)

    watched = Watched()

    await watched.run(blocks())

    (stall,) = watched.stalls
    assert (stall.plugin, stall.hook) == ("", "")
    assert "test_stall_detector.py:" in stall.location


async def test_watchdog_pings_stop_after_their_limit():
    watched = Watched(StallPolicy(report_seconds=0.1, interrupt_seconds=0, watchdog_seconds=0))

    await watched.call(Sleeps(0.6))

    assert watched.pings == []


async def test_waiting_hook_is_not_a_stall():
    class Waits:
        @hookimpl
        async def nodeagent_permit_pod(self, pod):
            await asyncio.sleep(0.5)

    watched = Watched()
    watched.ended.set()

    await watched.call(Waits())

    assert watched.stalls == []


async def test_thread_ends_with_the_detector():
    watched = Watched()
    watched.ended.set()
    await watched.run(asyncio.sleep(0))

    for thread in threading.enumerate():
        if thread.name == "stall-detector":
            await asyncio.to_thread(thread.join, 30)
    assert "stall-detector" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize(("hook", "owner", "plugin"), [(False, "mine", "mine"), (True, "mine", "slow")])
async def test_code_of_a_plugin_is_named_outside_of_its_hooks(monkeypatch, hook, owner, plugin):
    async def blocks():
        time.sleep(0.6)

    watched = Watched()
    monkeypatch.setattr(watched.plugins, "owner_of", lambda file: owner if "test_stall_detector" in file else "")

    await (watched.call(Sleeps(0.6), origin="nodeagent") if hook else watched.run(blocks()))

    assert [stall.plugin for stall in watched.stalls] == [plugin]


async def test_signal_handler_is_restored():
    def handler(*_):
        pass

    before = signal.signal(INTERRUPT, handler)
    try:
        watched = Watched()
        watched.ended.set()
        await watched.run(asyncio.sleep(0))
        await asyncio.sleep(0)
        assert signal.getsignal(INTERRUPT) is handler
    finally:
        signal.signal(INTERRUPT, before or signal.SIG_DFL)
