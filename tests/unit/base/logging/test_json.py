"""Tests for the JSON log format: one object per line, to standard output, or split and buffered."""

from __future__ import annotations

import io
import logging
import sys
from datetime import timedelta

import pytest

from nodeagent.base.logging import LoggingOptions, StreamOptions, formats, v_level
from nodeagent.base.logging.writer import LineWriter

log = logging.getLogger(__name__)


@pytest.mark.row("config.logging", "type.LoggingConfiguration.format")
def test_writes_time_caller_message_verbosity_logger_and_pairs(streams):
    streams.configure(format="json", verbosity=2)
    record = log.makeRecord(log.name, v_level(2), "/src/worker.py", 7, "Synced", (), None, None, {"took": 0.5})
    record.created = 1_700_000_000.1234

    log.handle(record)

    assert streams.out_lines() == [
        f'{{"ts":1700000000123.4,"caller":"worker.py:7","msg":"Synced","v":2,"logger":"{log.name}","took":0.5}}'
    ]


def test_error_has_err_and_no_verbosity(streams):
    streams.configure(format="json")

    log.error("Failed", extra={"err": ValueError("why"), "after": timedelta(seconds=1.5)})

    (line,) = streams.out_objects()
    assert (line["err"], line["after"]) == ("why", "1.5s")
    assert "v" not in line


def test_unexpected_error_has_a_traceback(streams):
    streams.configure(format="json")

    try:
        raise ValueError("why")
    except ValueError:
        log.exception("Failed")

    (line,) = streams.out_objects()
    assert line["err"] == "why"
    assert str(line["stacktrace"]).startswith("Traceback")


def test_warning_has_a_severity(streams):
    streams.configure(format="json")

    log.warning("Careful")
    log.info("Fine")

    assert [line.get("severity") for line in streams.out_objects()] == ["warning", None]


def test_key_that_equals_a_fixed_key_gets_a_suffix(streams):
    streams.configure(format="json")

    log.info("M", extra={"ts": 1, "logger": "x"})

    (line,) = streams.out_objects()
    assert (line["ts_"], line["logger_"], line["logger"]) == (1, "x", log.name)


@pytest.mark.row("type.LoggingOptions.InfoStream", "type.JSONOptions.splitStream")
def test_without_split_all_lines_go_to_the_info_stream(streams):
    streams.configure(format="json")

    log.info("one")
    log.error("two")

    assert [line["msg"] for line in streams.out_objects()] == ["one", "two"]
    assert streams.err_lines() == []


@pytest.mark.row(
    "type.LoggingConfiguration.options",
    "type.FormatOptions.json",
    "type.JSONOptions.splitStream",
    "type.LoggingOptions.ErrorStream",
    "type.LoggingOptions.InfoStream",
)
def test_with_split_only_errors_go_to_the_error_stream(streams):
    streams.configure(format="json", json=StreamOptions(split_stream=True))

    log.info("one")
    log.warning("two")
    log.error("three")

    assert [line["msg"] for line in streams.out_objects()] == ["one", "two"]
    assert [line["msg"] for line in streams.err_objects()] == ["three"]


def test_options_of_another_format_have_no_effect(streams):
    streams.configure(format="text", json=StreamOptions(split_stream=True, info_buffer_bytes=1000))

    log.info("one")

    assert len(streams.err_lines()) == 1
    assert streams.out_lines() == []


@pytest.mark.row("type.LoggingOptions.ErrorStream", "type.LoggingOptions.InfoStream")
def test_default_streams_are_those_of_the_process(streams, monkeypatch):
    out, err = io.BytesIO(), io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(err))
    streams.options = LoggingOptions()
    handle = streams.configure(format="json", json=StreamOptions(split_stream=True))

    log.info("one")
    log.error("two")
    handle.flush()

    assert b'"one"' in out.getvalue()
    assert b'"two"' in err.getvalue()


@pytest.mark.row("type.LoggingOptions.ErrorStream", "type.LoggingConfiguration.format")
def test_text_format_writes_to_standard_error(streams, monkeypatch):
    out, err = io.BytesIO(), io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(err))
    streams.options = LoggingOptions()
    handle = streams.configure()

    log.info("one")
    handle.flush()

    assert b'"one"' in err.getvalue()
    assert out.getvalue() == b""


@pytest.mark.row(
    "type.JSONOptions.splitStream", "type.JSONOptions.infoBufferSize", "type.LoggingConfiguration.flushFrequency"
)
@pytest.mark.parametrize(
    ("format_", "split", "made"),
    [
        ("text", True, [("err", 0)]),
        ("json", False, [("out", 0)]),
        ("json", True, [("err", 0), ("out", 1000)]),
    ],
)
def test_only_non_errors_are_buffered_and_only_with_split(streams, monkeypatch, format_, split, made):
    found = []

    def make(stream, *, buffer_bytes=0, flush_seconds=0.0, **others):
        found.append((stream, buffer_bytes, flush_seconds))
        return LineWriter(stream, buffer_bytes=buffer_bytes, flush_seconds=flush_seconds, **others)

    monkeypatch.setattr(formats, "LineWriter", make)
    streams.configure(format=format_, flush_seconds=7.5, json=StreamOptions(split_stream=split, info_buffer_bytes=1000))

    names = {id(streams.err): "err", id(streams.out): "out"}
    assert [(names[id(stream)], size) for stream, size, _ in found] == made
    assert all(seconds == 7.5 for _, size, seconds in found if size)


def test_text_format_splits_streams_on_request(streams):
    streams.configure(format="text", text=StreamOptions(split_stream=True))

    log.info("one")
    log.error("two")

    assert ['"one"' in line for line in streams.out_lines()] == [True]
    assert ['"two"' in line for line in streams.err_lines()] == [True]


def test_text_format_buffers_the_info_stream(streams):
    handle = streams.configure(
        format="text", flush_seconds=3600, text=StreamOptions(split_stream=True, info_buffer_bytes=100_000)
    )

    log.info("one")
    before = streams.out.getvalue()
    handle.flush()

    assert before == b""
    assert b"one" in streams.out.getvalue()
