"""Tests for the stacks of tasks."""

from __future__ import annotations

import asyncio
import signal

import pytest

from nodeagent.base.profiling.sampling import Busy, cpu_stacks, task_stacks
from nodeagent.testing import FakeClock


@pytest.mark.parametrize(("depth", "frames"), [(1, 1), (63, 63), (64, 64), (70, 64)])
async def test_stack_of_a_task_has_at_most_64_coroutines(depth: int, frames: int) -> None:
    async def nest(levels: int) -> None:
        if levels > 1:
            await nest(levels - 1)
        await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(nest(depth), name="nested")
    await asyncio.sleep(0)

    functions = [frame.function for frame in task_stacks()["nested"]]

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sum(function.endswith("nest") for function in functions) == frames


async def test_tasks_of_one_name_are_numbered() -> None:
    tasks = [asyncio.create_task(asyncio.Event().wait(), name="twin") for _ in range(3)]
    await asyncio.sleep(0)

    names = [name for name in task_stacks() if name.startswith("twin")]

    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert names == ["twin", "twin (2)", "twin (3)"]


async def test_handler_of_the_profiling_signal_is_restored(clock: FakeClock) -> None:
    def handler(_number: int, _frame: object) -> None: ...

    before = signal.signal(signal.SIGPROF, handler)
    try:
        task = asyncio.create_task(cpu_stacks(1.0, clock))
        await clock.advance(0)
        assert signal.getsignal(signal.SIGPROF) is not handler
        with pytest.raises(Busy):
            await cpu_stacks(1.0, clock)
        await clock.advance(1)
        await task

        assert signal.getsignal(signal.SIGPROF) is handler
    finally:
        signal.signal(signal.SIGPROF, before)
