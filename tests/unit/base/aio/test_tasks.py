"""Tests for owned tasks: logs of failures, and the limit for their cancellation."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.base.aio import TaskOwner


async def test_only_failures_of_tasks_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def complete() -> None:
        await asyncio.sleep(0)

    async def fail() -> None:
        raise ValueError("lost")

    async with TaskOwner("test") as tasks:
        waiting = tasks.start(asyncio.Event().wait(), "waits")
        tasks.start(complete(), "completes")
        failing = tasks.start(fail(), "fails")
        await asyncio.wait({failing})
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        await asyncio.sleep(0)

        assert len(tasks) == 0

    assert [(record.message, record.__dict__.get("task")) for record in caplog.records] == [
        ("Task failed", "test/fails")
    ]
