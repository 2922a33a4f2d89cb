"""Tests for the limits of the agent's process."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from nodeagent.testing.clock import FakeClock
from nodeagent_plugins import process_limits
from nodeagent_plugins.process_limits import REPEAT_SECONDS, ProcessLimits


@pytest.fixture
def granted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Recorded limits on a host with a maximum of 4096 open files."""
    calls: list[tuple[int, int]] = []

    def setrlimit(_which: int, limits: tuple[int, int]) -> None:
        if limits[1] > 4096:
            raise ValueError("not allowed to raise maximum limit")
        calls.append(limits)

    monkeypatch.setattr(process_limits.resource, "setrlimit", setrlimit)
    monkeypatch.setattr(process_limits.resource, "getrlimit", lambda _which: (1024, 4096))
    return calls


async def test_oom_score_is_written_and_restored(
    tmp_path: Path, clock: FakeClock, granted: list[tuple[int, int]]
) -> None:
    file = tmp_path / "oom_score_adj"
    file.write_text("0\n")
    loop = asyncio.create_task(ProcessLimits(-999, 100, clock, oom_score_file=file).run())
    await clock.advance(0)
    assert file.read_text() == "-999"

    file.write_text("5\n")
    await clock.advance(REPEAT_SECONDS)

    assert file.read_text() == "-999"
    assert granted == [(100, 100)]
    loop.cancel()


async def test_failed_oom_score_is_logged_once_and_ignored(
    tmp_path: Path, clock: FakeClock, granted: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    missing = tmp_path / "not" / "there"
    with caplog.at_level(logging.INFO):
        loop = asyncio.create_task(ProcessLimits(-999, 100, clock, oom_score_file=missing).run())
        await clock.advance(3 * REPEAT_SECONDS)

    assert [record.message for record in caplog.records] == ["Failed to ApplyOOMScoreAdj"]
    assert not loop.done()
    loop.cancel()


def test_open_files_are_limited_to_the_maximum(
    granted: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        process_limits.limit_open_files(1_000_000)

    assert granted == [(4096, 4096)]
    assert [record.granted for record in caplog.records] == [4096]  # type: ignore[attr-defined]
