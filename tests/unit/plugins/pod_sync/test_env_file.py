"""Tests for env files."""

from __future__ import annotations

import os

import pytest

from nodeagent_plugins.pod_sync.env_file import MAX_BYTES, env_value, read_env_file


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("KEY='a b'\n", "a b"),
        ("KEY='one'", "one"),
        ("\n  # comment\n\t\n  KEY='x' # why\n", "x"),
        ("KEY='first'\nKEY='second'\n", "first"),
        ("OTHER='1'\nKEY='2'\n", "2"),
        ("KEY='two\nlines'\n", "two\nlines"),
        ("OTHER='two\nKEY=no'\nKEY='yes'\n", "yes"),
        ("KEY='$A \\n \"b\" = #'\n", '$A \\n "b" = #'),
        ("KEY='dos'\r\n", "dos"),
        ("KEY= 'blank'\n", ""),
        ("KEY=''\n", ""),
        ("OTHER='1'\n", ""),
        ("", ""),
        ("KEY='x'\nnot checked\n", "x"),
    ],
)
def test_value_is_the_first_assignment(text, value):
    assert env_value(text, "KEY") == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("KEY\n", "line 1: missing '='"),
        ("\n='x'\n", "line 2: empty variable name"),
        ("KEY ='x'\n", "line 1: whitespace before '=' is not allowed"),
        ("KEY=x\n", "line 1: value must be enclosed in single quotes"),
        ('KEY="x"\n', "line 1: value must be enclosed in single quotes"),
        ("A='1'\nKEY='x\ny\n", "line 2: unclosed single quote"),
        ("KEY='x'y\n", "line 1: unexpected content after closing quote"),
        ("KEY='x\n'y\n", "line 2: unexpected content after closing quote"),
    ],
)
def test_invalid_syntax_names_the_line(text, problem):
    with pytest.raises(ValueError, match=problem):
        env_value(text, "KEY")


def test_file_in_a_directory_of_the_volume_is_read(tmp_path):
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "env").write_text("KEY='x'\n")

    assert read_env_file(tmp_path, "dir/env", "KEY") == "x"


@pytest.mark.parametrize("target", ["../outside", "/etc/hostname"])
def test_link_out_of_the_volume_is_not_followed(tmp_path, target):
    (tmp_path / "outside").write_text("KEY='secret'\n")
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "env").symlink_to(target)

    with pytest.raises(OSError, match="outside of the volume"):
        read_env_file(volume, "env", "KEY")


def test_pipe_is_rejected_without_blocking(tmp_path):
    os.mkfifo(tmp_path / "env")

    with pytest.raises(ValueError, match="not a regular file"):
        read_env_file(tmp_path, "env", "KEY")


def test_large_file_is_rejected(tmp_path):
    content = b"KEY='value'\n"
    (tmp_path / "env").write_bytes(content.ljust(MAX_BYTES, b"#"))
    assert read_env_file(tmp_path, "env", "KEY") == "value"
    (tmp_path / "env").write_bytes(content.ljust(MAX_BYTES + 1, b"#"))

    with pytest.raises(ValueError, match="larger than"):
        read_env_file(tmp_path, "env", "KEY")
