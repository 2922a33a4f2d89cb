"""Tests for events about plugins: a blocked event loop."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nodeagent import hookimpl
from nodeagent.plugin_events import PluginEvents
from nodeagent.pluginmanager import PluginManager
from nodeagent.stall_detector import Stall
from nodeagent.testing import FakeRecorder


class Slow:
    @hookimpl
    async def nodeagent_pod_admitted(self, pod):
        pass


@pytest.mark.parametrize(
    ("plugin", "interrupted", "source", "failures"),
    [
        ("slow", False, "plugin slow, nodeagent_pod_admitted", ["blocked the event loop for 1.5 s in slow.py:7"]),
        ("slow", True, "plugin slow, nodeagent_pod_admitted", []),
        ("", False, "the agent, nodeagent_pod_admitted", []),
    ],
)
def test_blocked_event_loop_is_an_event_and_a_failure_of_its_plugin(monkeypatch, plugin, interrupted, source, failures):
    manager, recorder, recorded = PluginManager(), FakeRecorder(), []
    manager.register(Slow(), name="slow", origin="third")
    monkeypatch.setattr(manager.calls, "record_failure", lambda info, error: recorded.append(error))
    context = SimpleNamespace(recorder=recorder, node_reference=lambda: None)
    events = PluginEvents(manager, lambda: context)

    events.stall_ended(Stall(plugin, "nodeagent_pod_admitted", "slow.py:7", 1.5, interrupted))

    assert [(event.reason, event.note) for event in recorder.events] == [
        ("EventLoopBlocked", f"The event loop was blocked for 1.5 s by {source} in slow.py:7")
    ]
    assert recorded == failures
