"""Tests for the order of plugins relative to others by name."""

from __future__ import annotations

import pytest

from nodeagent import hookimpl
from nodeagent.errors import PluginError
from nodeagent.pluginmanager import PluginManager


class Ordered:
    def __init__(self, name, calls, before=(), after=()):
        self.name, self.calls = name, calls
        self.nodeagent_before, self.nodeagent_after = before, after

    @hookimpl
    async def nodeagent_pod_admitted(self):
        self.calls.append(self.name)


async def order(*plugins):
    calls: list[str] = []
    manager = PluginManager()
    for name, before, after in plugins:
        manager.register(Ordered(name, calls, before, after), name=name)
    await manager.notify("nodeagent_pod_admitted", pod=None)
    return calls


async def test_plugins_are_called_before_and_after_those_they_name():
    assert await order(("a", (), ("c",)), ("b", (), ()), ("c", (), ()), ("d", ("b",), ())) == ["c", "a", "d", "b"]


async def test_order_applies_to_the_objects_of_a_plugin():
    assert await order(("a", (), ("b",)), ("b.x", (), ()), ("c", (), ()), ("b.y", (), ())) == ["b.x", "c", "b.y", "a"]


async def test_missing_plugin_does_not_change_the_order():
    assert await order(("a", (), ("missing",)), ("b", (), ())) == ["a", "b"]


async def test_cycle_is_an_error_that_lists_its_plugins():
    text = "plugin c: nodeagent_before and nodeagent_after contradict those of other plugins: c after b after a after c"
    with pytest.raises(PluginError, match=text):
        await order(("a", (), ("c",)), ("b", (), ("a",)), ("c", (), ("b",)))


async def test_order_that_is_a_text_is_an_error():
    with pytest.raises(PluginError, match="nodeagent_after must be a tuple of plugin names, not 'b'"):
        await order(("a", (), "b"))


async def test_withdrawn_plugin_does_not_affect_the_order():
    manager, calls = PluginManager(), []
    for name, after in (("a", ("b",)), ("b", ())):
        manager.register(Ordered(name, calls, (), after), name=name)
    withdrawn = manager.withdraw("a", "disabled")
    manager.restore("a", withdrawn)

    await manager.notify("nodeagent_pod_admitted", pod=None)

    assert calls == ["b", "a"]
