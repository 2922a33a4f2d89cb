"""Tests for ``nodeagent doctor``: checks of plugins, order of findings, failing checks, exit codes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from nodeagent import hookimpl, local_client
from nodeagent.cli import doctor
from nodeagent.cli.main import main
from nodeagent.contracts.checks import CheckInconclusive, NodeCheck, problem, warning
from nodeagent.contracts.plugin_report import PluginLine, PluginsReport
from nodeagent.pluginmanager import PluginManager

CONFIG = """\
apiVersion: nodeagent.config.k8s.io/v1beta1
kind: NodeAgentConfiguration
containerRuntimeEndpoint: unix:///none.sock
"""


class Checks:
    """Plugin that provides the given checks."""

    def __init__(self, *checks):
        self.checks = checks

    @hookimpl
    def nodeagent_provide_runtime(self):
        return object()

    @hookimpl
    def nodeagent_provide_image_service(self):
        return object()

    @hookimpl
    def nodeagent_provide_node_checks(self):
        return self.checks


def check(name, *findings):
    async def run():
        return findings

    return NodeCheck(name, run)


@pytest.fixture
def doctor_with(monkeypatch, tmp_path):
    """Return a function that runs the command with the given checks and returns its exit code."""
    file = tmp_path / "c.yaml"
    file.write_text(CONFIG)

    def run(*checks, output="text"):
        plugin = Checks(*checks)
        monkeypatch.setattr(
            PluginManager, "load_entry_points", lambda self, disabled: self.register(plugin, name="checks")
        )
        return main(["doctor", "--config", str(file), "-o", output])

    return run


def test_hook_provide_node_checks(doctor_with, capsys):
    code = doctor_with(check("a", warning("w", "do w")), check("b", problem("p", "do p")), check("c"))

    assert code == 1
    assert capsys.readouterr().out.splitlines() == [
        "PROBLEM  b: p",
        "         -> do p",
        "WARNING  a: w",
        "         -> do w",
        "",
        "OK: c",
        "UNKNOWN: plugins",
        "1 problem, 1 warning, 4 checks",
    ]


def test_exit_code_is_0_with_only_warnings(doctor_with):
    assert doctor_with(check("a", warning("w", "do w"))) == 0


def test_json_output_lists_findings_by_check(doctor_with, capsys):
    doctor_with(check("b", problem("p", "do p")), check("c"), output="json")

    assert json.loads(capsys.readouterr().out) == [
        {"check": "b", "known": True, "findings": [{"severity": "problem", "text": "p", "remedy": "do p"}]},
        {"check": "c", "known": True, "findings": []},
        {"check": "plugins", "known": False, "findings": []},
    ]


def test_inconclusive_check_is_listed_as_unknown(doctor_with, capsys):
    async def inconclusive():
        raise CheckInconclusive

    assert doctor_with(NodeCheck("driver", inconclusive)) == 0
    assert "UNKNOWN: driver" in capsys.readouterr().out


async def test_failing_or_hanging_check_is_a_finding(monkeypatch):
    async def fails():
        raise ZeroDivisionError("oh")

    async def returns_number():
        return 5

    monkeypatch.setattr(doctor, "CHECK_SECONDS", 0.01)
    results = [await doctor.run(NodeCheck("x", run)) for run in (fails, returns_number, asyncio.Event().wait)]

    assert [findings[0].text for _, findings in results] == [
        "check failed: ZeroDivisionError('oh')",
        "check failed: TypeError('returned 5 instead of a sequence of Finding')",
        "check timed out after 0.01 s",
    ]


def test_invalid_configuration_exits_with_2(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text(CONFIG + "maxPods: -7\n")

    assert main(["doctor", "--config", str(file)]) == 2
    assert "maxPods" in capsys.readouterr().err


def plugins_report(name: str, state: str) -> PluginsReport:
    plugins = [PluginLine(each, "1", "acme", [], state, last_error="boom") for each in (name, f"{name}.audit")]
    return PluginsReport(plugins, [])


@pytest.mark.parametrize("state", ["failing", "quarantined", "failed: boom"])
@pytest.mark.parametrize(
    ("name", "remedy"),
    [("image_gc", "--disable-plugin image_gc"), ("process", "`nodeagent plugins disable process`")],
)
async def test_failing_plugin_of_the_running_agent_is_a_problem(
    name: str, remedy: str, state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(local_client, "query", lambda *_: plugins_report(name, state))

    (finding,) = await doctor.check_plugins(tmp_path)

    assert f"plugin {name}" in finding.text and "boom" in finding.text
    assert finding.remedy.endswith(remedy)


async def test_plugins_are_unknown_without_a_running_agent(tmp_path: Path) -> None:
    assert await doctor.run(NodeCheck("plugins", lambda: doctor.check_plugins(tmp_path))) == ("plugins", None)


def test_plugin_that_fails_to_provide_its_checks_is_a_problem(doctor_with, capsys, monkeypatch):
    @hookimpl
    def raises(self):
        raise OSError("boom")

    monkeypatch.setattr(Checks, "nodeagent_provide_node_checks", raises)

    assert doctor_with() == 1
    assert "PROBLEM  checks: failed: plugin checks" in capsys.readouterr().out


def test_problems_and_warnings_are_counted_separately(doctor_with, capsys):
    findings = [problem("p", "do p"), problem("q", "do q"), warning("w", "do w")]

    assert doctor_with(check("a", *findings)) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 problems, 1 warning, 2 checks"
