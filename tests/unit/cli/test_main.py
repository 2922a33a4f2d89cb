"""The first word of the command line: a command, the daemon's flags, or neither."""

from __future__ import annotations

import pytest

from nodeagent.cli.main import COMMANDS, main


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_lists_every_command_and_says_where_the_flags_are(capsys, word):
    assert main([word]) == 0

    output = capsys.readouterr().out
    listed = {line.split()[0] for line in output.splitlines() if line.startswith("    ")}
    assert listed == set(COMMANDS)
    assert "nodeagent run --help" in output


def test_help_of_run_lists_the_flags(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", "--help"])

    assert ended.value.code == 0
    assert "--eviction-hard" in capsys.readouterr().out


@pytest.mark.parametrize(("word", "hint"), [("stauts", "did you mean status?"), ("xyzzy", "known are run, config")])
def test_a_word_that_is_no_command_is_named_with_what_was_meant_alone(capsys, word, hint):
    assert main([word]) == 2

    error = capsys.readouterr().err
    assert f"'{word}' is not a command" in error
    assert hint in error
    assert "containerRuntimeEndpoint" not in error
