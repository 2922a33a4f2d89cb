"""Tests for container logs in the CRI format."""

from __future__ import annotations

import re

import pytest

from nodeagent_plugins.embedded_runtime.helpers.cri_log import MAX_LINE_BYTES, CriLog


@pytest.fixture
def log(tmp_path):
    log = CriLog(str(tmp_path / "log"))
    yield log
    log.close()


def lines(tmp_path, name="log"):
    return [line.split(" ", 3) for line in (tmp_path / name).read_text().splitlines()]


def test_each_line_has_time_stream_and_tag(tmp_path, log):
    log.write("stdout", b"one\ntwo\n")
    log.write("stderr", b"bad\n")

    assert [line[1:] for line in lines(tmp_path)] == [
        ["stdout", "F", "one"],
        ["stdout", "F", "two"],
        ["stderr", "F", "bad"],
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", lines(tmp_path)[0][0])


def test_partial_writes_are_joined_per_stream(tmp_path, log):
    log.write("stdout", b"he")
    log.write("stderr", b"bad\n")
    log.write("stdout", b"llo\n")

    assert [line[3] for line in lines(tmp_path)] == ["bad", "hello"]


def test_incomplete_last_line_is_written_at_end_of_stream(tmp_path, log):
    log.write("stdout", b"rest")
    assert lines(tmp_path) == []

    log.write("stdout", b"")

    assert lines(tmp_path)[0][2:] == ["F", "rest"]


@pytest.mark.parametrize(
    ("size", "tags"),
    [(MAX_LINE_BYTES, "F"), (MAX_LINE_BYTES + 1, "PF"), (2 * MAX_LINE_BYTES, "PF"), (2 * MAX_LINE_BYTES + 1, "PPF")],
)
def test_long_line_is_split_into_partial_entries(tmp_path, log, size, tags):
    log.write("stdout", b"x" * size + b"\n")

    found = lines(tmp_path)
    assert "".join(line[2] for line in found) == tags
    assert sum(len(line[3]) for line in found) == size


def test_only_lines_over_the_limit_are_split(tmp_path, log):
    log.write("stdout", b"one\n" + b"x" * (MAX_LINE_BYTES + 1) + b"\n\n" + b"y" * MAX_LINE_BYTES + b"\ntwo\nrest")

    assert [(line[2], len(line[3])) for line in lines(tmp_path)] == [
        ("F", 3),
        ("P", MAX_LINE_BYTES),
        ("F", 1),
        ("F", 0),
        ("F", MAX_LINE_BYTES),
        ("F", 3),
    ]


def test_endless_line_is_written_without_buffering(tmp_path, log):
    for _ in range(5):
        log.write("stdout", b"x" * MAX_LINE_BYTES)

    assert [line[2] for line in lines(tmp_path)] == ["P"] * 5


def test_empty_line_is_logged(tmp_path, log):
    log.write("stdout", b"\n")

    assert lines(tmp_path)[0][1:] == ["stdout", "F", ""]


def test_renamed_log_is_reopened(tmp_path, log):
    log.write("stdout", b"before\n")
    (tmp_path / "log").rename(tmp_path / "log.1")

    log.reopen()
    log.write("stdout", b"after\n")

    assert [line[3] for line in lines(tmp_path)] == ["after"]
    assert [line[3] for line in lines(tmp_path, "log.1")] == ["before"]
