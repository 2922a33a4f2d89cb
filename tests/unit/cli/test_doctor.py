"""``nodeagent doctor`` runs what plugins provide and tells what they found, the worst first."""

from __future__ import annotations

import asyncio
import json

import pytest

from nodeagent import hookimpl
from nodeagent.cli import doctor
from nodeagent.cli.main import main
from nodeagent.contracts.checks import CheckInconclusive, NodeCheck, problem, warning
from nodeagent.pluginmanager import PluginManager

CONFIG = """\
apiVersion: nodeagent.config.k8s.io/v1beta1
kind: NodeAgentConfiguration
containerRuntimeEndpoint: unix:///none.sock
"""


class Checks:
    """A plugin with the checks of a test."""

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
def examine(monkeypatch, tmp_path):
    """Run the command with these checks."""
    file = tmp_path / "c.yaml"
    file.write_text(CONFIG)

    def run(*checks, output="text"):
        plugin = Checks(*checks)
        monkeypatch.setattr(
            PluginManager, "load_entry_points", lambda self, disabled: self.register(plugin, name="checks")
        )
        return main(["doctor", "--config", str(file), "-o", output])

    return run


def test_hook_provide_node_checks(examine, capsys):
    code = examine(check("a", warning("w", "do w")), check("b", problem("p", "do p")), check("c"))

    assert code == 1
    assert capsys.readouterr().out.splitlines() == [
        "PROBLEM  b: p",
        "         -> do p",
        "WARNING  a: w",
        "         -> do w",
        "",
        "well: c",
        "1 problem, 1 warning, 3 checks",
    ]


def test_warnings_alone_are_no_failure(examine):
    assert examine(check("a", warning("w", "do w"))) == 0


def test_the_findings_are_data(examine, capsys):
    examine(check("b", problem("p", "do p")), check("c"), output="json")

    assert json.loads(capsys.readouterr().out) == [
        {"check": "b", "known": True, "findings": [{"severity": "problem", "text": "p", "remedy": "do p"}]},
        {"check": "c", "known": True, "findings": []},
    ]


def test_a_check_that_cannot_tell_is_named(examine, capsys):
    async def unknown():
        raise CheckInconclusive

    assert examine(NodeCheck("driver", unknown)) == 0
    assert "not known: driver" in capsys.readouterr().out


async def test_a_check_that_fails_or_hangs_is_a_finding(monkeypatch):
    async def fails():
        raise ZeroDivisionError("oh")

    async def slips():
        return 5

    monkeypatch.setattr(doctor, "CHECK_SECONDS", 0.01)
    results = [await doctor.run(NodeCheck("x", run)) for run in (fails, slips, asyncio.Event().wait)]

    assert [findings[0].text for _, findings in results] == [
        "could not be done: ZeroDivisionError('oh')",
        "could not be done: TypeError('answered 5, which is no sequence of Finding')",
        "gave no answer within 0.01 s",
    ]


def test_a_wrong_configuration_is_refused(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text(CONFIG + "maxPods: -7\n")

    assert main(["doctor", "--config", str(file)]) == 2
    assert "maxPods" in capsys.readouterr().err
