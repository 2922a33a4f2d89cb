"""Tests for command dispatch by the first argument."""

from __future__ import annotations

import pytest

from nodeagent.cli.main import COMMANDS, main


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_lists_every_command_and_refers_to_the_flags(capsys, word):
    assert main([word]) == 0

    output = capsys.readouterr().out
    listed = {line.split()[0] for line in output.splitlines() if line.startswith("    ")}
    assert listed == set(COMMANDS)
    assert "nodeagent run --help" in output


def test_help_of_run_lists_the_flags(capsys):
    with pytest.raises(SystemExit) as exited:
        main(["run", "--help"])

    assert exited.value.code == 0
    assert "--eviction-hard" in capsys.readouterr().out


@pytest.mark.parametrize(("word", "hint"), [("xstatus", "did you mean status?"), ("xyzzy", "commands are run, config")])
def test_unknown_command_is_reported_with_a_suggestion(capsys, word, hint):
    assert main([word]) == 2

    error = capsys.readouterr().err
    assert f"unknown command '{word}'" in error
    assert hint in error
    assert "containerRuntimeEndpoint" not in error


@pytest.mark.parametrize("arguments", [[], ["--v=2", "run"], ["run"], ["run", "--v=2"], ["run", "run"]])
def test_flags_after_an_optional_first_argument_are_those_of_the_daemon(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr("nodeagent.cli.run.run", lambda argv: started.append(list(argv)) or 7)

    assert main(arguments) == 7

    assert started == [arguments[1:] if arguments[:1] == ["run"] else arguments]
