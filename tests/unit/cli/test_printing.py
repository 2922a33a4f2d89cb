"""Tests for the output of tables and JSON, on a terminal and piped."""

from __future__ import annotations

import json
import os
import sys

import pytest

from nodeagent.cli.exit_codes import ExitCode
from nodeagent.cli.main import main
from nodeagent.cli.printing import print_json, print_table, printable

LONG = "the quick brown fox jumps over the lazy dog again and again until it is tired"


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that makes standard output a terminal with the given number of columns."""

    def become(columns):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(columns))

    return become


def test_columns_are_aligned_with_their_headings(capsys):
    print_table([("web", "3", "Ready"), ("a-longer-name", "10", "")], ("POD", "N", "STATE"))

    assert capsys.readouterr().out.splitlines() == [
        "POD            N   STATE",
        "web            3   Ready",
        "a-longer-name  10",
    ]


def test_row_is_one_line_when_piped(capsys):
    print_table([("web", LONG)])

    assert capsys.readouterr().out == f"web  {LONG}\n"


def test_long_last_column_is_wrapped_on_a_terminal(terminal, capsys):
    terminal(50)
    print_table([("web", LONG), ("api", "short")])

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 50
    assert lines[0].startswith("web  the quick")
    assert lines[1].startswith("     ")
    assert lines[-1] == "api  short"
    assert " ".join(line.removeprefix("web").strip() for line in lines[:-1]) == LONG


def test_last_column_is_not_wrapped_on_a_narrow_terminal(terminal, capsys):
    terminal(12)
    print_table([("web", LONG)])

    assert capsys.readouterr().out == f"web  {LONG}\n"


def test_empty_table_prints_nothing(capsys):
    print_table([])

    assert capsys.readouterr().out == ""


def test_json_without_indent_is_one_line_and_not_escaped(capsys):
    print_json({"name": "café"}, indent=None)

    line = capsys.readouterr().out
    assert line == '{"name": "café"}\n'
    assert json.loads(line) == {"name": "café"}


@pytest.mark.parametrize("escape", ["\x1b]0;title\x07", "\x1b[2J", "\x9b2J", "\x7f", "\u202e", "\r"], ids=ascii)
def test_control_sequences_do_not_reach_the_terminal(terminal, capsys, escape):
    terminal(80)
    print_table([(escape, "x"), ("name", f"last{escape}")])
    print_json({"name": f"a\x9b{escape}" if escape != "\u202e" else "a"})

    out = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in out)


def test_line_breaks_become_spaces():
    assert printable("one\ntwo\tthree") == "one two three"


@pytest.mark.parametrize("command", [["config", "explain", "maxPods"], ["--help"]])
def test_closed_pipe_of_the_reader_is_not_an_error(monkeypatch, command):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        code = main(command)
        monkeypatch.undo()

    assert code == ExitCode.OK


@pytest.mark.parametrize(("columns", "wraps"), [(29, True), (28, False)])
def test_last_column_is_wrapped_if_24_columns_are_left(terminal, capsys, columns, wraps):
    terminal(columns)
    print_table([("web", LONG)])

    assert (len(capsys.readouterr().out.splitlines()) > 1) == wraps
