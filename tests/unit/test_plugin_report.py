"""Tests for the plugin report and ``nodeagent plugins list``."""

import asyncio
import json
import mmap
import time

import msgspec
import pytest

from nodeagent import hookimpl, local_client
from nodeagent.cli.main import main
from nodeagent.contracts.local import NoArguments
from nodeagent.contracts.pods import Rejection
from nodeagent.plugin_report import PluginReport
from nodeagent.pluginmanager import PluginManager, QuarantinePolicy
from nodeagent.testing.clock import FakeClock


class Policy:
    def __init__(self, results):
        self.results = results

    @hookimpl
    async def nodeagent_permit_eviction(self, pod, signal):
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


async def report_after(*results, failures=3):
    manager, clock = PluginManager(), FakeClock(time.monotonic())  # Quarantines use the time of the host.
    manager.register(Policy(list(results)), name="policy", version="1.2", origin="acme-policy")
    manager.contain(QuarantinePolicy(failures=failures))
    for _ in results:
        await manager.call_first(
            "nodeagent_permit_eviction", subject="default/web", tolerant=True, pod=None, signal="memory.available"
        )
    report = PluginReport(manager, clock)
    return await report.report(NoArguments()), report


async def test_calls_and_decisions_are_reported():
    report, _ = await report_after(None, Rejection("Veto", "no"))

    (plugin,) = report.plugins
    assert (plugin.name, plugin.version, plugin.origin, plugin.state) == ("policy", "1.2", "acme-policy", "ok")
    (calls,) = plugin.calls
    assert (calls.hook, calls.calls, calls.failures) == ("nodeagent_permit_eviction", 2, 0)
    assert calls.p99_seconds
    assert [(each.plugin, each.subject) for each in report.decisions] == [("policy", "default/web")]


async def test_failing_plugin_is_reported_until_it_succeeds():
    report, _ = await report_after(OSError("boom"))
    assert report.plugins[0].state == "failing"
    assert report.plugins[0].since is not None
    assert "boom" in report.plugins[0].last_error

    report, _ = await report_after(OSError("boom"), None)
    assert (report.plugins[0].state, report.plugins[0].since) == ("ok", None)


async def test_plugin_in_quarantine_is_reported_with_its_end():
    report, reporter = await report_after(*[OSError("boom")] * 3)

    assert report.plugins[0].state == "quarantined"
    assert report.plugins[0].until is not None
    assert "boom" in reporter.problems()["plugin policy"]


def test_cost_of_provider_hooks_is_reported_by_plugin():
    class Provider:
        @hookimpl
        def nodeagent_provide_routes(self):
            self.kept = mmap.mmap(-1, 8 << 20)
            self.kept.write(b"x" * len(self.kept))
            return ()

    manager = PluginManager()
    manager.register(Provider(), name="small")
    manager.register(Provider(), name="large.routes")
    assert PluginReport(manager, FakeClock()).costs() == []

    manager.provide_all("nodeagent_provide_routes", context=None)

    costs = PluginReport(manager, FakeClock()).costs()
    assert {line.name for line in costs} == {"small", "large"}
    assert all(line.memory_bytes >= 7 << 20 for line in costs)


@pytest.fixture
def running(monkeypatch):
    """Return a function that sets the report of the running agent."""

    def respond(report):
        monkeypatch.setattr(local_client, "query", lambda root, name, arguments, into: report)

    return respond


def test_list_shows_state_calls_and_last_error(running, capsys):
    report, _ = asyncio.run(report_after(None, OSError("boom")))
    running(report)

    assert main(["plugins", "list"]) == 0

    output = capsys.readouterr().out
    assert "failing since" in output
    assert "boom" in output
    assert "not running" not in output


def test_list_of_one_plugin_contains_its_parts_and_decisions(running, capsys):
    report, _ = asyncio.run(report_after(Rejection("Veto", "no")))
    line = report.plugins[0]
    part, other = (msgspec.structs.replace(line, name=name) for name in ("policy.audit", "other"))
    running(msgspec.structs.replace(report, plugins=[line, part, other]))

    assert main(["plugins", "list", "policy", "-o", "json"]) == 0

    output = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in output["plugins"]] == ["policy", "policy.audit"]
    assert len(output["decisions"]) == 1
    assert main(["plugins", "list", "unknown"]) != 0
    assert "plugin unknown: is not installed" in capsys.readouterr().err


def test_list_states_that_no_agent_is_running(tmp_path, capsys):
    assert main(["plugins", "list", "--root-dir", str(tmp_path)]) == 0

    output = capsys.readouterr().out
    assert output.startswith("The agent is not running: these plugins are installed.")
    assert "CALLS" not in output


def test_list_as_json_contains_the_statistics(running, capsys):
    report, _ = asyncio.run(report_after(OSError("boom")))
    running(report)

    assert main(["plugins", "list", "-o", "json"]) == 0

    output = json.loads(capsys.readouterr().out)
    assert output["running"] is True
    assert output["plugins"][0]["calls"][0]["failures"] == 1
