"""Tests for ``nodeagent plugins``: the table of plugins, and new projects."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from nodeagent import local_client
from nodeagent.authoring.check import Finding
from nodeagent.cli import plugins
from nodeagent.cli.main import main
from nodeagent.contracts.plugin_report import (
    DecisionLine,
    HookLine,
    PluginChanged,
    PluginLine,
    PluginProfile,
    PluginsReport,
    ProfiledHook,
)

AT = datetime(2024, 1, 1, 3, 0, tzinfo=UTC)


def calls(seconds: float | None) -> HookLine:
    return HookLine("nodeagent_admit_pod", 2, 1, 0, 0, seconds, 0.0, 0.0)


def line(state: str, hooks: list[HookLine] | None = None, **times: Any) -> PluginLine:
    return PluginLine("p", "1", "acme", ["nodeagent_admit_pod"], state, calls=hooks or [], **times)


@pytest.mark.parametrize(
    ("plugin", "shown"),
    [
        (line("active"), "active"),
        (line("failing", since=AT), "failing since"),
        (line("failing", until=AT), "failing "),
        (line("quarantined", until=AT), "quarantined until"),
        (line("quarantined", since=AT), "quarantined "),
        (line("active", since=AT, until=AT), "active "),
    ],
)
def test_state_has_its_time(
    plugin: PluginLine, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_client, "query", lambda *_: PluginsReport([plugin], []))

    assert main(["plugins", "list"]) == 0

    output = capsys.readouterr().out
    assert shown in output
    assert ("since" in output, "until" in output) == ("since" in shown, "until" in shown)


@pytest.mark.parametrize(
    ("hooks", "counts", "seconds"),
    [
        ([], ("0", "0"), None),
        ([calls(None)], ("2", "1"), None),
        ([calls(None), calls(0.25), calls(0.125)], ("6", "3"), 0.25),
    ],
)
def test_calls_are_summed_and_the_slowest_hook_is_shown(
    hooks: list[HookLine],
    counts: tuple[str, str],
    seconds: float | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(local_client, "query", lambda *_: PluginsReport([line("active", hooks)], []))

    main(["plugins", "list"])

    cells = capsys.readouterr().out.splitlines()[1].split()
    assert tuple(cells[4:6]) == counts
    assert cells[6:] == [*plugins._seconds(seconds or 0.0).split(), "admit_pod"]


@pytest.mark.parametrize(("state", "code"), [("active", 0), ("failed: boom", 1), ("failing", 0)])
def test_plugin_that_failed_to_load_is_a_problem(state: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_client, "query", lambda *_: PluginsReport([line("active"), line(state)], []))

    assert main(["plugins", "list"]) == code


@pytest.mark.parametrize(
    ("name", "arguments", "directory", "replaces"),
    [
        ("my_limit", [], "nodeagent-my-limit", False),
        ("my_limit", ["--dir", "other"], "other", False),
        ("lock_file", [], "nodeagent-lock-file", True),
    ],
)
def test_project_is_written_to_the_directory(
    name: str,
    arguments: list[str],
    directory: str,
    replaces: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["plugins", "new", name, *arguments]) == 0

    output = capsys.readouterr().out
    assert f"cd {directory}\n" in output
    assert (tmp_path / directory / "pyproject.toml").is_file()
    assert (f"it replaces the bundled plugin {name}" in output) is replaces


def test_name_of_an_installed_third_party_plugin_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    entry = EntryPoint("acme", "acme:plugin", "nodeagent")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [entry])
    monkeypatch.setattr(plugins, "distribution_of", lambda each: ("acme-plugin", "1"))

    assert main(["plugins", "new", "acme"]) == 2
    assert "acme" in capsys.readouterr().err


@pytest.mark.parametrize(("count", "text"), [(0, "0 problems found"), (1, "1 problem found"), (2, "2 problems found")])
def test_number_of_problems_is_printed(
    count: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = Finding(tmp_path / "p.py", 3, "rule", "message")
    monkeypatch.setattr("nodeagent.authoring.check.check_plugin", lambda *_, **__: [finding] * count)

    code = main(["plugins", "check", str(tmp_path)])

    lines = capsys.readouterr().out.splitlines()
    assert (code, lines[-1]) == (1 if count else 0, text)
    assert lines[:-1] == [f"{tmp_path}/p.py:3: rule: message"] * count


def decision(plugin: str, number: int = 0, count: int = 1) -> DecisionLine:
    at = AT + timedelta(seconds=number)
    return DecisionLine(plugin, "nodeagent_admit_pod", f"pod-{number}", "admitted", at, at, count)


def test_named_plugins_are_listed_with_their_objects_and_decisions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [PluginLine(name, "1", "acme", [], "active") for name in ("a", "a.part", "b")]
    report = PluginsReport(lines, [decision("a.part"), decision("b")])
    monkeypatch.setattr(local_client, "query", lambda *_: report)

    assert main(["plugins", "list", "a", "-o", "json"]) == 0

    listed = json.loads(capsys.readouterr().out)
    assert listed["running"] is True
    assert [each["name"] for each in listed["plugins"]] == ["a", "a.part"]
    assert [each["plugin"] for each in listed["decisions"]] == ["a.part"]
    assert main(["plugins", "list", "a", "none"]) == 2
    assert "none" in capsys.readouterr().err


def test_latest_20_decisions_are_listed_with_their_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    decisions = [*(decision("p", number) for number in range(20)), decision("p", 20, count=2)]
    monkeypatch.setattr(local_client, "query", lambda *_: PluginsReport([line("active")], decisions))

    assert main(["plugins", "list"]) == 0

    rows = capsys.readouterr().out.partition("Latest decisions\n")[2].splitlines()[1:]
    decided = [" ".join(row.split()[3:]) for row in rows]
    assert decided == [*(f"pod-{number} admitted" for number in range(1, 20)), "pod-20 admitted (x2)"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, ""), (0.00025, "0.25ms"), (0.9994, "999ms"), (1.0, "1s"), (12.34, "12.3s")]
)
def test_durations_are_in_milliseconds_below_a_second(
    seconds: float, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_client, "query", lambda *_: PluginsReport([line("active", [calls(seconds)])], []))

    assert main(["plugins", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[6:] == [*([text] if text else []), "admit_pod"]


def test_last_errors_are_listed_for_plugins_that_have_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = PluginsReport([line("failing", last_error="boom"), PluginLine("q", "1", "acme", [], "active")], [])
    monkeypatch.setattr(local_client, "query", lambda *_: report)

    assert main(["plugins", "list"]) == 0

    output = capsys.readouterr().out
    assert output.endswith("Last errors\nPLUGIN  ERROR\np       boom\n")


def test_installed_plugins_are_listed_without_a_running_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugins", "list", "lock_file", "--root-dir", str(tmp_path)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The agent is not running: these plugins are installed."
    assert lines[2].split() == ["NAME", "VERSION", "ORIGIN", "STATE", "HOOKS"]
    assert lines[3].startswith("lock_file ")


def failing(error: Exception, cause: Exception | None = None) -> Callable[..., object]:
    def query(*_: object, **__: object) -> object:
        raise error from cause

    return query


@pytest.mark.parametrize(
    ("error", "cause", "code", "text"),
    [
        (local_client.AgentUnreachable("use root"), PermissionError(), 3, "nodeagent: use root\n"),
        (local_client.AgentRequestFailed("busy"), None, 1, "nodeagent: failed to get the plugins: busy\n"),
    ],
)
def test_agent_that_does_not_list_its_plugins_is_reported(
    error: Exception,
    cause: Exception | None,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(local_client, "query", failing(error, cause))

    assert main(["plugins", "list"]) == code
    assert capsys.readouterr() == ("", text)


@pytest.mark.parametrize("command", ["enable", "disable", "reload", "profile"])
@pytest.mark.parametrize(
    ("error", "code"), [(local_client.AgentUnreachable("stopped"), 3), (local_client.AgentRequestFailed("stopped"), 2)]
)
def test_failed_change_or_profile_prints_the_error(
    command: str, error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_client, "query", failing(error))

    assert main(["plugins", command, "p"]) == code
    assert capsys.readouterr().err == "nodeagent: stopped\n"


def test_change_is_printed_with_hooks_and_notes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [PluginChanged("p", "2", ["nodeagent_admit_pod"], ["until a restart"]), PluginChanged("p", "", [], [])]
    monkeypatch.setattr(local_client, "query", lambda *_: results.pop(0))

    assert main(["plugins", "enable", "p"]) == 0
    assert main(["plugins", "disable", "p"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "Enabled plugin p 2",
        "Hooks: admit_pod",
        "until a restart",
        "Disabled plugin p",
    ]


def test_profile_omits_empty_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    profile = PluginProfile(
        plugin="p",
        seconds=1.5,
        cpu_seconds=0.25,
        agent_cpu_seconds=0.5,
        allocated_bytes=0,
        hooks=[ProfiledHook(hook="nodeagent_admit_pod", calls=2, cpu_seconds=0.25)],
        code=[],
        allocations=[],
    )
    monkeypatch.setattr(local_client, "query", lambda *_, **__: profile)

    assert main(["plugins", "profile", "p", "--seconds", "1.5"]) == 0
    assert main(["plugins", "profile", "p", "-o", "json"]) == 0

    text, _, document = capsys.readouterr().out.partition("{")
    lines = text.splitlines()
    assert lines[0].startswith("Plugin p in 1.5 s: 0.250 s of CPU time (agent: 0.500 s), 0 bytes")
    table = [" ".join(each.split()) for each in lines[1:]]
    assert table == ["", "HOOK CALLS CPU SECONDS", "nodeagent_admit_pod 2 0.2500"]
    assert json.loads("{" + document)["plugin"] == "p"


def test_out_of_process_plugin_cannot_be_checked_without_running_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plugins", "new", "far", "--out-of-process"]) == 0

    assert main(["plugins", "check", "nodeagent-far", "--no-import"]) == 2
    assert "--no-import is invalid for an out-of-process plugin" in capsys.readouterr().err


def test_findings_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding(tmp_path / "p.py", 3, "rule", "message")
    loads: list[bool] = []

    def check(*_: object, load: bool, **__: object) -> list[Finding]:
        loads.append(load)
        return [finding]

    monkeypatch.setattr("nodeagent.authoring.check.check_plugin", check)

    assert main(["plugins", "check", str(tmp_path), "-o", "json"]) == 1
    assert main(["plugins", "check", str(tmp_path), "-o", "json", "--no-import"]) == 1

    assert loads == [True, False]
    assert capsys.readouterr().out.count(f'"file": "{tmp_path}/p.py"') == 2
