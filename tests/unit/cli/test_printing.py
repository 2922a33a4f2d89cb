"""Data and tables look alike whatever the command, for people and for programs."""

from __future__ import annotations

import json
import os
import sys

import pytest

from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.main import main
from nodeagent.cli.printing import print_json, print_table

LONG = "the quick brown fox jumps over the lazy dog again and again until it is tired"


@pytest.fixture
def terminal(monkeypatch):
    """Make standard output a terminal that is so many columns wide."""

    def become(columns):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(columns))

    return become


def test_columns_stand_below_their_headings(capsys):
    print_table([("web", "3", "serves"), ("a-longer-name", "10", "")], ("POD", "N", "STATE"))

    assert capsys.readouterr().out.splitlines() == [
        "POD            N   STATE",
        "web            3   serves",
        "a-longer-name  10",
    ]


def test_a_piped_row_is_one_line(capsys):
    print_table([("web", LONG)])

    assert capsys.readouterr().out == f"web  {LONG}\n"


def test_on_a_terminal_a_long_last_column_goes_on_below_itself(terminal, capsys):
    terminal(50)
    print_table([("web", LONG), ("api", "short")])

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 50
    assert lines[0].startswith("web  the quick")
    assert lines[1].startswith("     ")
    assert lines[-1] == "api  short"
    assert " ".join(line.removeprefix("web").strip() for line in lines[:-1]) == LONG


def test_a_terminal_too_narrow_for_columns_wraps_by_itself(terminal, capsys):
    terminal(12)
    print_table([("web", LONG)])

    assert capsys.readouterr().out == f"web  {LONG}\n"


def test_an_empty_table_prints_nothing(capsys):
    print_table([])

    assert capsys.readouterr().out == ""


def test_data_may_be_on_one_line_and_keeps_its_letters(capsys):
    print_json({"name": "café"}, indent=None)

    line = capsys.readouterr().out
    assert line == '{"name": "café"}\n'
    assert json.loads(line) == {"name": "café"}


def test_a_reader_that_goes_early_is_no_crash(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        code = main(["config", "explain", "maxPods"])
        monkeypatch.undo()

    assert code == ExitCode.OK
