"""What takes too long ends, and nothing else does."""

from __future__ import annotations

import asyncio

import pytest

from apiserver_stub.pipeline.deadlines import Deadlines


async def test_what_takes_too_long_is_ended() -> None:
    deadlines = Deadlines()

    with pytest.raises(TimeoutError), deadlines.after(0):
        await asyncio.sleep(60)

    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_who_is_in_time_never_hears_of_it() -> None:
    deadlines = Deadlines()
    with deadlines.after(0):
        pass

    with deadlines.after(60), pytest.raises(TimeoutError), deadlines.after(0):
        await asyncio.sleep(60)  # when this ends, the first was looked at too


async def test_an_end_from_outside_stays_one() -> None:
    deadlines = Deadlines()
    began = asyncio.Event()

    async def work() -> None:
        with deadlines.after(60):
            began.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_each_ends_at_its_own_time() -> None:
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
