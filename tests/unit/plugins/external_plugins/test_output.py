"""Tests for the log of a plugin's output."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.testing import FakeClock
from nodeagent_plugins.external_plugins import output
from nodeagent_plugins.external_plugins.output import OutputLog


async def copy(log: OutputLog, data: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    await log.copy(reader)


async def test_lines_are_logged_with_the_name_of_the_plugin(clock: FakeClock, caplog) -> None:
    caplog.set_level("INFO")
    await copy(OutputLog("shelf", 10, clock), b"one\r\n\ntwo\xff\nthree")

    assert [(each.plugin, each.line) for each in caplog.records] == [
        ("shelf", "one"),
        ("shelf", "two\ufffd"),
        ("shelf", "three"),
    ]


async def test_lines_above_the_rate_are_dropped_and_counted(clock: FakeClock, caplog) -> None:
    caplog.set_level("INFO")
    log = OutputLog("shelf", 1, clock)
    await copy(log, b"x\n" * 30)
    await clock.advance(10)
    await copy(log, b"y\n")

    assert [each.line for each in caplog.records if hasattr(each, "line")] == ["x"] * 10 + ["y"]
    assert [each.lines for each in caplog.records if hasattr(each, "lines")] == [20]


@pytest.mark.parametrize("length", [4097, 100_000])
async def test_long_line_is_split_or_truncated(clock: FakeClock, caplog, length: int) -> None:
    caplog.set_level("INFO")
    await copy(OutputLog("shelf", 100, clock), b"x" * length)

    assert max(len(each.line) for each in caplog.records) == 4096


async def test_flood_is_read_at_a_limited_rate(clock: FakeClock) -> None:
    lines: list[str] = []
    task = asyncio.create_task(copy(OutputLog("shelf", 10, clock, lines.append), b"x" * 1023 * 16384))
    await clock.advance(1)
    assert not task.done()

    for _ in range(10):
        await clock.advance(1)

    assert task.done()


@pytest.mark.parametrize(("size", "lines"), [(output._MAX_LINE_BYTES, 1), (output._MAX_LINE_BYTES + 1, 2)])
async def test_long_line_is_divided(clock: FakeClock, caplog, size: int, lines: int) -> None:
    caplog.set_level("INFO")

    await copy(OutputLog("shelf", 10, clock), b"x" * size)

    assert len(caplog.records) == lines
