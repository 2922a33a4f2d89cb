"""Tests for the logging setup: configuration, changes at run time, closing."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from nodeagent.base.logging import (
    LoggingError,
    LoggingSettings,
    StreamOptions,
    VModule,
    check_settings,
    configure,
    format_gates,
    parse_vmodule,
    register_format,
    unregister_format,
    v_level,
    verbose,
    verbosity_of,
)
from nodeagent.base.logging.levels import MAX_VERBOSITY
from nodeagent.base.logging.settings import MAX_BUFFER_BYTES

log = logging.getLogger(__name__)


def messages(lines):
    return [line.split("] ", 1)[1].strip('"') for line in lines]


@pytest.mark.row("type.LoggingConfiguration.verbosity")
def test_errors_and_messages_within_the_verbosity_are_logged(streams):
    streams.configure(verbosity=2)

    for number in range(5):
        log.log(v_level(number), "v%d", number)
    log.error("error")

    assert messages(streams.err_lines()) == ["v0", "v1", "v2", "error"]


@pytest.mark.row("type.LoggingConfiguration.verbosity")
def test_default_verbosity_logs_only_v0_and_above(streams):
    streams.configure()

    log.log(v_level(1), "detail")
    log.info("information")
    log.error("error")

    assert messages(streams.err_lines()) == ["information", "error"]


@pytest.mark.row("type.LoggingConfiguration.verbosity")
def test_verbosity_can_be_changed_at_run_time(streams):
    handle = streams.configure()

    handle.set_verbosity(4)
    log.debug("shown")
    handle.set_verbosity(0)
    log.debug("not shown")

    assert messages(streams.err_lines()) == ["shown"]
    assert handle.verbosity == 0
    with pytest.raises(LoggingError):
        handle.set_verbosity(-1)


def test_levels_and_verbosities_convert_both_ways():
    assert [verbosity_of(v_level(number)) for number in range(14)] == list(range(14))
    assert v_level(4) == logging.DEBUG
    assert v_level(2**31 - 1) == 1
    assert [verbosity_of(level) for level in (logging.ERROR, 15)] == [0, 3]


def test_verbose_is_false_below_the_threshold(streams):
    streams.configure(verbosity=3)

    assert (verbose(log, 3), verbose(log, 4)) == (True, False)


@pytest.mark.row("type.LoggingConfiguration.vmodule")
def test_file_threshold_logs_more_of_a_matching_file(streams):
    streams.configure(vmodule=(VModule("test_set*", 3), VModule("test_*", 9)))

    log.log(v_level(3), "mine")
    log.log(v_level(4), "too fine: the first pattern that matches counts")
    other = log.makeRecord(log.name, v_level(3), "/src/worker.py", 1, "other file", (), None)
    log.handle(other)

    assert messages(streams.err_lines()) == ["mine"]


def test_file_threshold_matches_a_package_by_its_name(streams):
    streams.configure(vmodule=(VModule("pipeline", 3),))

    for path in ("/src/pipeline/__init__.py", "/src/other/__init__.py"):
        log.handle(log.makeRecord(log.name, v_level(3), path, 1, path, (), None))

    assert messages(streams.err_lines()) == ["/src/pipeline/__init__.py"]


@pytest.mark.row("type.LoggingConfiguration.vmodule")
def test_file_threshold_below_the_verbosity_has_no_effect(streams):
    streams.configure(verbosity=2, vmodule=(VModule("test_setup", 0),))

    log.log(v_level(2), "shown")

    assert messages(streams.err_lines()) == ["shown"]


def test_flag_format_of_file_thresholds_is_parsed():
    assert parse_vmodule("worker=4, pod_*=2,") == (VModule("worker", 4), VModule("pod_*", 2))
    assert parse_vmodule("") == ()
    for wrong in ("worker", "worker=", "=4", "worker=x", "worker=-1"):
        with pytest.raises(LoggingError, match="pattern=N"):
            parse_vmodule(wrong)


def test_second_configuration_is_rejected_unless_equal(streams):
    first = streams.configure(verbosity=1)

    assert streams.configure(verbosity=1) is first
    with pytest.raises(LoggingError, match="already"):
        streams.configure(verbosity=2)


def test_closing_restores_the_root_logger(streams):
    root = logging.getLogger()
    before = (root.level, list(root.handlers))

    handle = streams.configure(verbosity=4)
    log.info("last")
    handle.close()
    handle.close()

    assert (root.level, root.handlers) == before
    assert messages(streams.err_lines()) == ["last"]
    streams.configure(verbosity=2)


@pytest.mark.row("type.LogFormatFactory")
def test_registered_format_can_be_configured(streams):
    seen = []

    class Collect(logging.Handler):
        def emit(self, record):
            seen.append(record.getMessage())

    register_format("collect", lambda settings, options: Collect(), gate="LoggingAlphaOptions")
    try:
        with pytest.raises(LoggingError, match="already registered"):
            register_format("collect", lambda settings, options: Collect())
        with pytest.raises(LoggingError, match="LoggingAlphaOptions"):
            configure(LoggingSettings(format="collect"), gate_enabled=lambda gate: False)
        streams.configure(format="collect")
        log.info("one")
    finally:
        unregister_format("collect")

    assert seen == ["one"]


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        (LoggingSettings(format="xml"), "format"),
        (LoggingSettings(flush_seconds=-1), "flushFrequency"),
        (LoggingSettings(verbosity=-1), "verbosity"),
        (LoggingSettings(verbosity=2**31), "verbosity"),
        (LoggingSettings(format="json", vmodule=(VModule("a", 1),)), "vmodule"),
        (LoggingSettings(vmodule=(VModule("", 1),)), "vmodule[0].filePattern"),
        (LoggingSettings(vmodule=(VModule("a", 1), VModule("a=b", 1))), "vmodule[1].filePattern"),
        (LoggingSettings(vmodule=(VModule("a", -1),)), "vmodule[0].verbosity"),
        (LoggingSettings(json=StreamOptions(info_buffer_bytes=-1)), "options.json.infoBufferSize"),
        (LoggingSettings(json=StreamOptions(info_buffer_bytes=2**31 + 1)), "options.json.infoBufferSize"),
        (LoggingSettings(text=StreamOptions(info_buffer_bytes=-1)), "options.text.infoBufferSize"),
    ],
)
def test_error_names_the_invalid_setting(settings, path):
    assert [problem.path for problem in check_settings(settings, format_gates())] == [path]
    with pytest.raises(LoggingError, match=r"logging\."):
        configure(settings)


@pytest.mark.row("type.LoggingConfiguration.options")
def test_alpha_options_require_their_gate_in_any_format():
    settings = LoggingSettings(format="text", json=StreamOptions(split_stream=True, info_buffer_bytes=10))

    problems = list(check_settings(settings, format_gates(), lambda gate: gate != "LoggingAlphaOptions"))

    assert [problem.path for problem in problems] == ["options.json.splitStream", "options.json.infoBufferSize"]
    assert not list(check_settings(settings, format_gates(), lambda gate: True))


def test_json_format_requires_its_gate():
    problems = check_settings(LoggingSettings(format="json"), format_gates(), lambda gate: gate != "LoggingBetaOptions")

    assert [problem.path for problem in problems] == ["format"]


def test_process_exit_without_closing_writes_all_lines():
    script = (
        "import logging\n"
        "from nodeagent.base.logging import *\n"
        "configure(LoggingSettings(format='json', flush_seconds=3600,"
        " json=StreamOptions(split_stream=True, info_buffer_bytes=1000000)))\n"
        "logging.info('info'); logging.error('error')\n"
        "raise SystemExit(3)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)

    assert ended.returncode == 3
    assert b'"msg":"info"' in ended.stdout
    assert b'"msg":"error"' in ended.stderr


@pytest.mark.parametrize("verbosity", [0, MAX_VERBOSITY])
@pytest.mark.parametrize("size", [0, MAX_BUFFER_BYTES])
def test_limits_of_settings_are_valid(verbosity, size):
    settings = LoggingSettings(
        flush_seconds=0.0,
        verbosity=verbosity,
        vmodule=(VModule("a", verbosity),),
        json=StreamOptions(info_buffer_bytes=size),
        text=StreamOptions(info_buffer_bytes=size),
    )

    assert list(check_settings(settings, {"text": None})) == []


@pytest.mark.parametrize(
    ("enabled", "split", "size", "names"),
    [
        ({"A"}, False, 0, []),
        (set(), False, 0, ["format"]),
        ({"A"}, True, 0, ["options.text.splitStream"]),
        ({"A"}, False, 1, ["options.text.infoBufferSize"]),
        ({"A", "LoggingAlphaOptions"}, True, 1, []),
    ],
)
def test_formats_and_options_need_their_gates(enabled, split, size, names):
    settings = LoggingSettings(text=StreamOptions(split_stream=split, info_buffer_bytes=size))

    assert [problem.path for problem in check_settings(settings, {"text": "A"}, enabled.__contains__)] == names
