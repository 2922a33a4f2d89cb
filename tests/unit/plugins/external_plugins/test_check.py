"""Tests for the check of projects with an out-of-process plugin."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import pytest

from nodeagent.contracts.plugin_checks import PluginCheck
from nodeagent.testing import load_plugin
from nodeagent.testing.contracts import PluginCheckContract
from nodeagent_plugins import external_plugins
from nodeagent_plugins.external_plugins import check
from nodeagent_plugins.external_plugins.check import CHECKS, check_project
from nodeagent_plugins.external_plugins.process import StartError
from nodeagent_plugins.external_plugins.settings import CAPABILITIES, ExternalPlugin


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
