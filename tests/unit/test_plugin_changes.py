"""Tests for changes of plugins at runtime: new code is used only if it works, and the previous one stays otherwise."""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent import hookimpl, hookspec
from nodeagent.contracts.plugin_report import PluginAction, PluginChangeRequest
from nodeagent.contracts.pods import Rejection
from nodeagent.errors import PluginError, VolumeError
from nodeagent.model.pod import Pod
from nodeagent.plugin_changes import Components, PluginChanges
from nodeagent.plugin_scopes import PluginScopes
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import admit, make_context, make_pod

CODE = """
from nodeagent import hookimpl
from nodeagent.contracts.pods import Rejection
from live_shelf.text import REASON


@hookimpl
def nodeagent_configure(context, plugins):
    context.cleanup.callback(CLOSED.append, REASON)
    plugins.register(Shelf(), name="shelf.admission")


CLOSED = []


class Shelf:
    @hookimpl
    async def nodeagent_admit_pod(self, pod):
        return Rejection(REASON, "no")
"""


class Kind:
    def __init__(self, name: str) -> None:
        self.name = name


class FakeVolumes:
    def __init__(self) -> None:
        self.in_use = False
        self.changes: list[tuple[list[str], list[str]]] = []

    def replace_kinds(self, removed: Any, added: Any) -> None:
        if self.in_use and removed and not added:
            raise VolumeError("pods use volumes of kind x: default/web")
        self.changes.append(([each.name for each in removed], [each.name for each in added]))


class FakeLoops:
    def __init__(self) -> None:
        self.running: list[tuple[str, Any]] = []

    def start_loops(self, loops: Any) -> None:
        self.running.extend(loops)

    async def stop_loops(self, plugin: str) -> None:
        self.running = [each for each in self.running if each[0].partition(".")[0] != plugin]


class Live:
    """A plugin on disk, and an agent's plugin manager that has loaded it."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.package = directory / "live_shelf"
        self.package.mkdir()
        self.write("First")
        monkeypatch.syspath_prepend(str(directory))
        entry = importlib.metadata.EntryPoint("shelf", "live_shelf", "nodeagent")
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [entry])
        self.plugins = PluginManager()
        scopes = PluginScopes(self.plugins.is_bundled)
        self.plugins.narrow = scopes.narrow
        self.volumes, self.loops, self.route_changes = FakeVolumes(), FakeLoops(), 0
        self.context = make_context(directory)
        self.context.volumes = self.volumes
        self.plugins.load_entry_points()
        config = self.context.config
        self.plugins.provide_all("nodeagent_configure", config=config, context=self.context, plugins=self.plugins)

        async def change_routes() -> None:
            self.route_changes += 1

        components = Components(self.context, lambda: self.context, self.loops, change_routes)
        self._changes = PluginChanges(self.plugins, scopes, components)

    def write(self, reason: str, code: str = CODE) -> None:
        (self.package / "__init__.py").write_text(code)
        (self.package / "text.py").write_text(f"REASON = {reason!r}\n# {'x' * len(reason)}\n")
        for cached in self.package.glob("__pycache__/*"):
            cached.unlink()

    async def change(self, action: str, name: str = "shelf") -> Any:
        return await self._changes.change(PluginChangeRequest(PluginAction(action), name))

    async def reason(self) -> str | None:
        rejection = await admit(self.plugins, make_pod())
        return None if rejection is None else rejection.reason


@pytest.fixture
def live(tmp_path, monkeypatch):
    yield Live(tmp_path, monkeypatch)
    for name in [each for each in sys.modules if each.partition(".")[0] == "live_shelf"]:
        del sys.modules[name]


async def test_disabled_plugin_is_not_called_and_its_resources_are_closed(live):
    closed = sys.modules["live_shelf"].CLOSED

    changed = await live.change("disable")

    assert (await live.reason(), changed.hooks, closed) == (None, [], ["First"])
    assert [(info.name, info.state) for info in live.plugins.plugins()] == [("shelf", "disabled")]
    assert "until the agent restarts" in changed.notes[0]


async def test_enabled_plugin_is_called_again(live):
    await live.change("disable")

    changed = await live.change("enable")

    assert await live.reason() == "First"
    assert changed.hooks == ["nodeagent_admit_pod", "nodeagent_configure"]


async def test_reload_imports_submodules_again(live):
    live.write("Second")

    await live.change("reload")

    assert await live.reason() == "Second"


async def test_reloaded_plugin_may_implement_hooks_of_other_plugins(live):
    class Hooks:
        @hookspec
        async def writer_finished(self, book: str) -> None:
            """Notify of a book that was written."""

    class Writer:
        @hookimpl
        def nodeagent_addhooks(self):
            return Hooks()

    live.plugins.register(Writer(), name="writer")
    live.write("Second", f"{CODE}\n@hookimpl\nasync def writer_finished(book): pass\n")

    changed = await live.change("reload")

    assert "writer_finished" in changed.hooks


@pytest.mark.parametrize(
    "code",
    ["import missing_library", CODE.replace("nodeagent_admit_pod", "nodeagent_admits"), CODE.replace("Shelf()", "0/0")],
)
async def test_reload_of_failing_code_keeps_the_previous_code(live, code):
    module = sys.modules["live_shelf"]
    live.write("Second", code)

    with pytest.raises(PluginError, match="plugin shelf"):
        await live.change("reload")

    assert await live.reason() == "First"
    assert (sys.modules["live_shelf"], module.CLOSED) == (module, [])
    live.write("Third")
    await live.change("reload")
    assert await live.reason() == "Third"


async def test_no_call_is_skipped_during_a_reload(live):
    live.write("Second")
    seen = set()

    async def call_repeatedly() -> None:
        while True:
            seen.add(await live.reason())
            await asyncio.sleep(0)

    task = asyncio.create_task(call_repeatedly())
    await live.change("reload")
    await live.reason()
    task.cancel()

    assert seen <= {"First", "Second"}


async def test_plugin_that_provides_a_component_is_not_changed(live):
    code = CODE + "\n\n@hookimpl\ndef nodeagent_provide_runtime():\n    return None\n"
    live.write("Second", code)

    text = r"cannot be changed while the agent runs: .*nodeagent_provide_runtime \(other components"
    with pytest.raises(PluginError, match=text):
        await live.change("reload")

    assert await live.reason() == "First"


KINDS = """

class Kind:
    name = REASON


@hookimpl
def nodeagent_provide_volume_kinds():
    return [Kind()]


@hookimpl
def nodeagent_provide_routes():
    return []


class Loop:
    name = "loop"

    async def run(self):
        pass


@hookimpl
def nodeagent_provide_background_loops():
    return [Loop()]
"""


async def test_kinds_routes_and_loops_are_replaced(live):
    live.write("Second", CODE + KINDS)
    await live.change("reload")
    live.write("Third", CODE + KINDS)
    await live.change("reload")

    assert live.volumes.changes == [([], ["Second"]), (["Second"], ["Third"])]
    assert (live.route_changes, [name for name, _ in live.loops.running]) == (2, ["shelf"])


async def test_kind_with_volumes_in_use_is_not_disabled(live):
    live.write("Second", CODE + KINDS)
    await live.change("reload")
    live.volumes.in_use = True

    with pytest.raises(PluginError, match="pods use volumes of kind x: default/web"):
        await live.change("disable")

    assert await live.reason() == "Second"


async def test_required_plugin_is_not_disabled(live):
    live.plugins.contain(SimpleNamespace(), ["shelf"])

    with pytest.raises(PluginError, match="is required by requiredPlugins"):
        await live.change("disable")


@pytest.mark.parametrize(("action", "text"), [("enable", "is enabled already"), ("disable", "is not installed")])
async def test_change_without_effect_is_an_error(live, action, text):
    with pytest.raises(PluginError, match=text):
        await live.change(action, "shelf" if action == "enable" else "other")


class Registered:
    """Plugin that another one has registered, such as an out-of-process plugin."""

    def __init__(self, loop: object) -> None:
        self.loop = loop

    @hookimpl
    def nodeagent_provide_background_loops(self) -> list[object]:
        return [self.loop]

    @hookimpl
    async def nodeagent_admit_pod(self, pod: Pod) -> Rejection:
        return Rejection("Registered", "no")


async def test_plugin_without_entry_point_is_disabled_restarted_and_enabled(live: Live) -> None:
    loop = SimpleNamespace(name="connection")
    live.plugins.register(Registered(loop), name="external", origin="/opt/external")
    provided = live.plugins.provide_all(
        "nodeagent_provide_background_loops", context=live.context, plugins=live.plugins
    )
    live.loops.start_loops([(each.plugin, found) for each in provided for found in each.value])

    await live.change(PluginAction.RELOAD, "external")
    assert live.loops.running == [("external", loop)]

    await live.change(PluginAction.DISABLE, "external")
    assert live.loops.running == []
    rejection = await admit(live.plugins, make_pod())
    assert rejection is not None and rejection.reason == "First"

    await live.change(PluginAction.ENABLE, "external")
    assert live.loops.running == [("external", loop)]
    info = live.plugins.info("external")
    assert info is not None and (info.state, info.origin) == ("loaded", "/opt/external")
