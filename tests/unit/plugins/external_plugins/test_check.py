"""Tests for the check of projects with an out-of-process plugin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import pytest

from nodeagent.contracts.plugin_checks import PluginCheck
from nodeagent.testing import FakeClock, load_plugin
from nodeagent.testing.contracts import PluginCheckContract
from nodeagent_plugins import external_plugins
from nodeagent_plugins.external_plugins import check
from nodeagent_plugins.external_plugins.check import CHECKS, check_project
from nodeagent_plugins.external_plugins.process import StartError
from nodeagent_plugins.external_plugins.session import Session
from nodeagent_plugins.external_plugins.settings import CAPABILITIES, ExternalPlugin
from tests.unit.plugins.external_plugins.conftest import FakePlugin


class TestProjectCheck(PluginCheckContract):
    @pytest.fixture
    async def checks(self) -> Sequence[PluginCheck]:
        plugins = load_plugin(external_plugins, name="external_plugins")
        (result,) = plugins.provide_all("nodeagent_provide_plugin_checks", plugins=plugins)
        return result.value  # type: ignore[no-any-return]

    def test_hook_provide_plugin_checks(self, checks: Sequence[PluginCheck]) -> None:
        assert [check.file_name for check in checks] == ["nodeagent-plugin.yaml"]


def test_each_capability_has_a_check() -> None:
    assert set(CHECKS) == set(CAPABILITIES)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "must be a map with the name of the plugin"),
        ("{}", "must be a map with the name of the plugin"),
        ("name: 1", "must be a map with the name of the plugin"),
        ("{name: shelf, capabilities: [admission], command: []}", "command: "),
        ("{name: shelf, capabilities: [admission], command: ./a}", "command: "),
        ("{name: shelf, capabilities: [admission], command: [none]}", "command[0]: must be an absolute path"),
        ("{name: shelf, capabilities: [none], command: [./a]}", "capabilities.0: "),
        ("{name: Shelf, capabilities: [admission], command: [./a]}", "name: "),
        ("{name: shelf, capabilities: [volumes], command: [./a]}", "volumeDrivers: "),
    ],
)
async def test_invalid_file_is_reported_with_the_field(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "nodeagent-plugin.yaml").write_text(text)

    problems = await check_project(tmp_path, deadline_of=lambda _: 1.0)

    assert any(each.startswith(f"nodeagent-plugin.yaml: {problem}") for each in problems), problems


@pytest.mark.parametrize(("command", "resolved"), [("./run", "{}/run"), ("sh", "*/sh")])
async def test_command_is_found_in_the_project_or_in_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, resolved: str
) -> None:
    checked: list[ExternalPlugin] = []

    class NotStarted:
        def __init__(self, plugin: ExternalPlugin, *_: object) -> None:
            checked.append(plugin)

        def running(self) -> object:
            raise StartError("not started")

    monkeypatch.setattr(check, "Executable", NotStarted)
    text = f"{{name: shelf, capabilities: [admission], command: [{command}, -v]}}"
    (tmp_path / "nodeagent-plugin.yaml").write_text(text)

    assert await check_project(tmp_path, deadline_of=lambda _: 1.0) == ["not started"]
    (plugin,) = checked
    assert fnmatch(plugin.command[0], resolved.format(tmp_path)) and plugin.command[1:] == ("-v",)
    assert plugin.working_directory == str(tmp_path)


class Started:
    """Executable that is started: a plugin that exits after some checks of its socket, or never."""

    socket = Path("/run/plugin.sock")

    def __init__(self, exit_after: int | None) -> None:
        self._polls, self._exit_after = 0, exit_after
        self.exited = asyncio.Event()

    def is_socket(self, _path: str) -> bool:
        self._polls += 1
        if self._polls == self._exit_after:
            self.exited.set()
        return False

    def result(self) -> str:
        return "exited with code 3"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Started]:
        yield self


@pytest.mark.parametrize(
    ("exit_after", "problem"),
    [
        (1, "the plugin exited with code 3 before it served its socket"),
        (3, "the plugin exited with code 3 before it served its socket"),
        (None, "the plugin did not serve its socket within 5 s"),
    ],
)
async def test_plugin_that_does_not_serve_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exit_after: int | None, problem: str
) -> None:
    clock, started = FakeClock(), Started(exit_after)
    monkeypatch.setattr(check, "Executable", lambda *_: started)
    monkeypatch.setattr(check, "is_socket", started.is_socket)
    monkeypatch.setattr(check, "SystemClock", lambda: clock)
    text = "{name: shelf, capabilities: [admission], command: [./run], startSeconds: 5}"
    (tmp_path / "nodeagent-plugin.yaml").write_text(text)

    task = asyncio.create_task(check_project(tmp_path, deadline_of=lambda _: 1.0))
    while not task.done():
        await clock.advance(0.5)
        await asyncio.sleep(0)

    assert await task == [problem]


@pytest.mark.parametrize(
    ("error", "problems"),
    [
        (None, []),
        (TimeoutError(), ["capability admission: did not respond in time"]),
        (TimeoutError("late"), ["capability admission: late"]),
    ],
)
async def test_failed_capability_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plugin: FakePlugin,
    error: Exception | None,
    problems: list[str],
) -> None:
    async def exercise(_exercise: object) -> None:
        if error is not None:
            raise error

    started = Started(None)
    monkeypatch.setattr(check, "Executable", lambda *_: started)
    monkeypatch.setattr(check, "is_socket", lambda _: True)
    monkeypatch.setattr(check, "Session", partial(Session, connect=plugin.connect))
    monkeypatch.setattr(check, "CHECKS", {"admission": exercise})
    (tmp_path / "nodeagent-plugin.yaml").write_text("{name: shelf, capabilities: [admission], command: [./run]}")

    assert list(await check_project(tmp_path, deadline_of=lambda _: 1.0)) == problems
