"""The agent's own process gets its OOM score and its limit of open files, as far as the kernel lets it."""

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
    """Limits that were set, on a machine that grants at most 4096 open files."""
    calls: list[tuple[int, int]] = []

    def setrlimit(_which: int, limits: tuple[int, int]) -> None:
        if limits[1] > 4096:
            raise ValueError("not allowed to raise maximum limit")
        calls.append(limits)

    monkeypatch.setattr(process_limits.resource, "setrlimit", setrlimit)
    monkeypatch.setattr(process_limits.resource, "getrlimit", lambda _which: (1024, 4096))
    return calls


async def test_writes_the_score_and_writes_it_again_when_it_was_changed(
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


async def test_a_refused_score_is_told_once_and_is_no_failure(
    tmp_path: Path, clock: FakeClock, granted: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    missing = tmp_path / "not" / "there"
    with caplog.at_level(logging.WARNING):
        loop = asyncio.create_task(ProcessLimits(-999, 100, clock, oom_score_file=missing).run())
        await clock.advance(3 * REPEAT_SECONDS)

    assert [record.message for record in caplog.records] == ["OOM score of the agent cannot be set"]
    assert not loop.done()
    loop.cancel()


def test_gets_as_many_files_as_allowed_when_the_wanted_number_is_refused(
    granted: list[tuple[int, int]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        process_limits.limit_open_files(1_000_000)

    assert granted == [(4096, 4096)]
    assert [record.granted for record in caplog.records] == [4096]  # type: ignore[attr-defined]
