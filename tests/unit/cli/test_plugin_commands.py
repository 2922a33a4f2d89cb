"""Tests for commands of plugins."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from nodeagent.cli.main import main

MODULE = """
from nodeagent.local_client import AgentUnreachable

def shelf(arguments):
    print("books", *arguments)
    return 4 if arguments else None

def broken(arguments):
    raise AgentUnreachable("no agent is listening")
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "shelf_commands.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    values = {"shelf": "shelf_commands:shelf", "broken": "shelf_commands:broken", "gone": "missing_module:main"}
    entries = [importlib.metadata.EntryPoint(name, value, "nodeagent.commands") for name, value in values.items()]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: entries)
    yield
    sys.modules.pop("shelf_commands", None)


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--large", "x"], 4)])
def test_command_receives_its_arguments_and_returns_the_exit_code(capsys, arguments, code):
    assert main(["shelf", *arguments]) == code

    assert capsys.readouterr().out == " ".join(["books", *arguments]) + "\n"


def test_error_of_the_agent_is_printed_without_a_traceback(capsys):
    assert main(["broken"]) == 1

    assert capsys.readouterr().err == "nodeagent broken: no agent is listening\n"


def test_command_that_cannot_be_imported_is_reported_with_its_value(capsys):
    assert main(["gone"]) == 2

    assert "nodeagent gone: failed to import missing_module:main" in capsys.readouterr().err


def test_help_lists_commands_of_plugins(capsys):
    assert main(["help"]) == 0

    output = capsys.readouterr().out
    assert output.index("commands of plugins:") < output.index("  shelf")


def test_unknown_command_suggests_commands_of_plugins(capsys):
    assert main(["shelv"]) == 2

    assert "did you mean shelf?" in capsys.readouterr().err
