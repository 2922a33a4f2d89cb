"""Tests for the text log format: one line per message, in klog's layout."""

from __future__ import annotations

import logging
import os
import re
from datetime import timedelta

import pytest

from nodeagent.base.logging import v_level
from nodeagent.base.logging.lines import text_line
from nodeagent.base.logging.origin import PLUGIN
from nodeagent.base.logging.values import masked
from nodeagent.base.secret import Secret

log = logging.getLogger(__name__)


def only(lines):
    (line,) = lines
    return line.split("] ", 1)[1]


@pytest.mark.row("config.logging", "type.LoggingConfiguration.format")
def test_line_has_severity_time_process_caller_message_and_pairs(streams):
    streams.configure()

    log.info("Pod started", extra={"pod": "default/web", "containers": 2, "static": False, "node": None})

    (line,) = streams.err_lines()
    assert re.fullmatch(
        rf"I\d\d\d\d \d\d:\d\d:\d\d\.\d{{6}} +{os.getpid()} test_text\.py:\d+\] "
        r'"Pod started" pod="default/web" containers=2 static=false node=null',
        line,
    )
    assert streams.out_lines() == []


@pytest.mark.parametrize(
    ("level", "letter"), [(logging.INFO, "I"), (logging.WARNING, "W"), (logging.ERROR, "E"), (logging.CRITICAL, "F")]
)
def test_line_starts_with_the_letter_of_the_severity(streams, level, letter):
    streams.configure()

    log.log(level, "Message")

    assert streams.err_lines()[0][0] == letter


def test_levels_below_information_use_its_letter(streams):
    streams.configure(verbosity=9)

    log.log(v_level(9), "Message")
    log.debug("Message")

    assert [line[0] for line in streams.err_lines()] == ["I", "I"]


def test_arguments_are_formatted_into_the_message(streams):
    streams.configure()

    log.info("%d of %s", 3, "four")

    assert only(streams.err_lines()) == '"3 of four"'


def test_mismatched_arguments_keep_the_message():
    record = log.makeRecord(log.name, logging.INFO, __file__, 1, "%d containers", ("three",), None)

    assert b'] "%d containers (TypeError' in text_line(record)


def test_expected_error_is_a_pair_without_traceback(streams):
    streams.configure()

    log.error("Pull failed", extra={"err": ValueError("registry answered 401")})

    assert only(streams.err_lines()) == '"Pull failed" err="registry answered 401"'


def test_unexpected_error_is_followed_by_its_traceback(streams):
    streams.configure()

    try:
        raise KeyError
    except KeyError:
        log.exception("Sync failed")

    first, *trace = streams.err_lines()
    assert first.endswith('"Sync failed" err="KeyError"')
    assert trace[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in trace)


def test_control_characters_of_a_message_are_escaped(streams):
    streams.configure()

    log.info("one\nE0101 two", extra={"name_": "\x1b[2J\x9b2J\u202e"})

    line = only(streams.err_lines())
    assert line == r'"one\nE0101 two" name_="\u001b[2J\x9b2J\u202e"'


def test_lists_objects_and_durations_are_formatted(streams):
    streams.configure()

    log.info("M", extra={"pods": ["a", "b"], "labels": {"app": "web"}, "after": timedelta(minutes=1, seconds=2.5)})

    assert only(streams.err_lines()) == '"M" pods=["a","b"] labels={"app":"web"} after="1m2.5s"'


def test_value_that_cannot_be_converted_keeps_the_message(streams):
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    streams.configure()

    log.info("M", extra={"broken": Broken(), "path": os.fsdecode(b"/tmp/\xff")})

    assert only(streams.err_lines()) == r'"M" broken="<Broken: RuntimeError>" path="/tmp/\\udcff"'


def test_long_text_is_truncated(streams):
    streams.configure()

    log.info("M", extra={"body": "x" * 20_000})

    line = only(streams.err_lines())
    assert len(line) < 17_000
    assert line.endswith('… (3616 characters more)"')


def test_text_of_the_maximum_length_is_complete(streams):
    streams.configure()

    log.info("M", extra={"body": "x" * 16_384})

    assert only(streams.err_lines()).endswith('xxx"')


@pytest.mark.parametrize(
    "pairs",
    [
        {"value": Secret("hunter2")},
        {"password": "hunter2"},
        {"bearer_token": "hunter2"},
        {"headers": {"Authorization": "hunter2", "X-Auth-Token": "hunter2"}},
        {"nested": [{"registry": {"identity-token": "hunter2"}}]},
        {"header": "Bearer hunter2-abc"},
        {"url": "https://user:hunter2@registry.example/v2/"},
        {"err": ValueError("401 for Basic hunter2Zm9vOmJhcg==")},
        {"jwt": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.hunter2"},
        {"raw": b"hunter2"},
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_masked(streams, pairs, form):
    streams.configure(format=form, verbosity=10)

    log.debug("Request to https://user:hunter2@registry.example", extra=pairs)

    (line,) = streams.err_lines() + streams.out_lines()
    assert "hunter2" not in line
    assert "***" in line


def test_number_of_tokens_is_not_masked(streams):
    streams.configure()

    log.info("M", extra={"token": 3, "secret": "default/registry-credentials"})

    assert only(streams.err_lines()) == '"M" token=3 secret="default/registry-credentials"'


def test_line_names_the_plugin_that_logs_it(streams):
    streams.configure()
    token = PLUGIN.set("limit")
    try:
        log.info("A")
        log.info("B", extra={"plugin": "other"})
    finally:
        PLUGIN.reset(token)
    log.info("C")

    assert [line.partition("] ")[2] for line in streams.err_lines()] == [
        '"A" plugin="limit"',
        '"B" plugin="other"',
        '"C"',
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sent Bearer abc.def-123 twice", "sent Bearer *** twice"),
        ("Authorization: basic dXNlcjpwYXNz", "Authorization: basic ***"),
        ("GET https://user:secret@host/a", "GET https://***@host/a"),
        ("token eyJhbGciOiJ9.eyJzdWIi.c2ln end", "token *** end"),
        ("https://host/a:b@c", "https://host/a:b@c"),
    ],
)
def test_secrets_inside_texts_are_masked(text, shown):
    assert masked(text) == shown
