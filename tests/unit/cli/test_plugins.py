"""Tests for ``nodeagent plugins``: the table of plugins, and new projects."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from nodeagent import local_client
from nodeagent.authoring.check import Finding
from nodeagent.cli import plugins
from nodeagent.cli.main import main
from nodeagent.contracts.plugin_report import HookLine, PluginLine, PluginsReport

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
