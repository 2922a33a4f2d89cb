"""Tests for decisions of plugins: subject, repetition, events and log records."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

from nodeagent import hookimpl
from nodeagent.base.logging.origin import PLUGIN
from nodeagent.contracts.pods import Rejection
from nodeagent.contracts.runtime import SandboxConfig
from nodeagent.plugin_events import PluginEvents
from nodeagent.pluginmanager import PluginManager, QuarantinePolicy
from nodeagent.pluginmanager.decisions import MAX_DECISIONS, DecisionLog
from nodeagent.testing import FakeRecorder, make_pod

WEB = make_pod("web")


class Guard:
    def __init__(self):
        self.rejection = Rejection("Busy", "batch job runs")

    @hookimpl
    async def nodeagent_permit_eviction(self, pod):
        return self.rejection

    @hookimpl
    async def nodeagent_mutate_sandbox(self, sandbox):
        return sandbox

    @hookimpl
    async def nodeagent_pod_admitted(self, pod):
        logging.getLogger("guard").warning("Noticed pod")


def loaded(origin="nodeagent-guard"):
    manager, guard, recorder = PluginManager(), Guard(), FakeRecorder()
    manager.register(guard, name="guard", origin=origin)
    context = SimpleNamespace(recorder=recorder, node_reference=lambda: None)
    PluginEvents(manager, lambda: context)
    return manager, guard, recorder


async def veto(manager):
    await manager.call_first("nodeagent_permit_eviction", tolerant=True, pod=WEB, signal="memory.available")


async def test_persistent_veto_is_reported_once_per_change(caplog):
    caplog.set_level(logging.INFO)
    manager, guard, recorder = loaded()
    for _ in range(5):
        await veto(manager)
    guard.rejection = Rejection("Busy", "backup runs")
    await veto(manager)
    guard.rejection = None
    await veto(manager)
    guard.rejection = Rejection("Busy", "backup runs")
    await veto(manager)

    decisions = manager.decisions.about("default/web")
    expected = [("Busy: batch job runs", 5), ("Busy: backup runs", 1), ("Busy: backup runs", 1)]
    assert [(each.verdict, each.count) for each in decisions] == expected  # wording: ok
    assert [(event.reason, event.note) for event in recorder.events] == [
        ("PluginVetoedEviction", f"Plugin guard: {text}") for text, _ in expected
    ]
    assert [record.plugin for record in caplog.records] == ["guard"] * 3


async def test_unchanged_configuration_is_not_recorded():
    manager, _, recorder = loaded()

    await manager.call_chain("nodeagent_mutate_sandbox", "sandbox", SandboxConfig("web", "u", "default", "x"), pod=WEB)

    assert (list(manager.decisions), recorder.events) == ([], [])


async def test_pod_that_is_decided_on_without_a_quarantined_plugin_has_one_event():
    manager, guard, recorder = loaded()
    guard.rejection = OSError("boom")
    manager.contain(QuarantinePolicy(failures=1))
    for _ in range(4):
        await veto(manager)  # The first call fails, because its result is invalid: not a rejection.

    assert [(event.reason, event.note) for event in recorder.events if event.reason == "PluginSkipped"] == [
        (
            "PluginSkipped",
            "Plugin guard did not decide about this pod (nodeagent_permit_eviction): "
            "it failed repeatedly and is quarantined",
        )
    ]
    (decision,) = manager.decisions.about("default/web")
    assert (decision.skipped, decision.count) == (True, 3)


async def test_decision_of_bundled_plugin_creates_no_event():
    manager, _, recorder = loaded(origin="nodeagent")

    await veto(manager)

    assert (len(list(manager.decisions)), recorder.events) == (1, [])


async def test_log_records_of_a_hook_contain_its_plugin():
    seen = []

    class Sees(Guard):
        @hookimpl
        async def nodeagent_pod_admitted(self, pod):
            seen.append(PLUGIN.get())
            await asyncio.sleep(0)
            seen.append(PLUGIN.get())

    manager = PluginManager()
    manager.register(Sees(), name="sees", origin="third")
    await manager.notify("nodeagent_pod_admitted", pod=WEB)

    assert (seen, PLUGIN.get()) == (["sees", "sees"], "")


def test_oldest_decisions_are_dropped():
    log = DecisionLog()
    for index in range(MAX_DECISIONS + 5):
        log.record("a", "h", f"pod-{index}", "no", 0.0)

    assert len(list(log)) == MAX_DECISIONS
    assert log.record("a", "h", "pod-0", "no", 0.0) is not None
