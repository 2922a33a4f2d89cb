"""Tests for request timeouts."""

from __future__ import annotations

import asyncio

import pytest

from apiserver_stub.pipeline.deadlines import Deadlines


async def test_request_beyond_its_deadline_is_cancelled() -> None:
    deadlines = Deadlines()

    with pytest.raises(TimeoutError), deadlines.after(0):
        await asyncio.sleep(60)

    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_request_within_its_deadline_is_not_cancelled() -> None:
    deadlines = Deadlines()
    with deadlines.after(0):
        pass

    with deadlines.after(60), pytest.raises(TimeoutError), deadlines.after(0):
        await asyncio.sleep(60)  # its expiration also checks the first one


async def test_external_cancellation_is_not_a_timeout() -> None:
    deadlines = Deadlines()
    started = asyncio.Event()

    async def work() -> None:
        with deadlines.after(60):
            started.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_deadlines_expire_independently() -> None:
    deadlines = Deadlines()
    go = asyncio.Event()

    async def patient() -> str:
        with deadlines.after(60):
            await go.wait()
        return "done"

    task = asyncio.create_task(patient())
    with pytest.raises(TimeoutError), deadlines.after(0):
        await asyncio.sleep(60)
    go.set()
    assert await task == "done"
