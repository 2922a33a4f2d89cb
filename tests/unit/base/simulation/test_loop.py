"""Tests for the event loop with virtual time."""

import asyncio
import gc
import time
from contextvars import Context

import pytest

from nodeagent.base.simulation import loop as loop_module
from nodeagent.base.simulation.loop import PROCESS, BusyLoop, Deadlock, SimulatedLoop


@pytest.fixture
def loop():
    loop = SimulatedLoop(1)
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()


def process(number):
    context = Context()
    context.run(PROCESS.set, number)
    return context


def test_sleep_advances_the_virtual_time_only(loop):
    started = time.monotonic()

    loop.run_until_complete(asyncio.sleep(86400))

    assert loop.time() == 86400
    assert time.monotonic() - started < 60


def test_thread_work_runs_after_a_delay_from_the_seed(loop):
    assert loop.run_until_complete(asyncio.to_thread(lambda: 7)) == 7

    assert 0 < loop.time() < 5


def test_error_of_thread_work_is_raised_to_the_caller(loop):
    with pytest.raises(ZeroDivisionError):
        loop.run_until_complete(asyncio.to_thread(lambda: 1 / 0))


def test_tasks_that_wait_for_each_other_are_a_deadlock(loop):
    with pytest.raises(Deadlock):
        loop.run_until_complete(loop.create_future())


def test_tasks_that_never_wait_for_time_are_a_busy_loop(loop):
    async def spin():
        while True:
            await asyncio.sleep(0)

    with pytest.raises(BusyLoop):
        loop.run_until_complete(spin())


def test_dropped_process_executes_nothing_more(loop):
    executed = []

    async def work():
        try:
            while True:
                executed.append(loop.time())
                await asyncio.sleep(1)
        finally:
            asyncio.get_running_loop().call_soon(executed.append, "clean-up")

    async def main():
        loop.create_task(work(), context=process(1))
        await asyncio.sleep(2.5)
        loop.drop(1)
        await asyncio.sleep(10)

    loop.run_until_complete(main())

    assert executed == [0, 1, 2]


def test_process_crashes_after_a_number_of_callbacks(loop):
    steps = []

    async def work():
        while True:
            steps.append(1)
            await asyncio.sleep(1)

    async def main():
        loop.crash_at, loop.on_crash = 3, lambda: loop.drop(1)
        loop.create_task(work(), context=process(1))
        await asyncio.sleep(10)

    loop.run_until_complete(main())

    assert 1 <= len(steps) <= 3


@pytest.mark.parametrize("callbacks", [1, 2, 5])
def test_crash_is_after_exactly_this_number_of_callbacks(loop, callbacks):
    executed = []

    async def main():
        loop.crash_at, loop.on_crash = callbacks, lambda: loop.drop(1)
        for number in range(10):
            loop.call_soon(executed.append, number, context=process(1))
        await asyncio.sleep(10)

    loop.run_until_complete(main())

    assert executed == list(range(callbacks))


def test_sets_of_tasks_have_the_order_of_their_creation(loop):
    async def main():
        tasks = [loop.create_task(asyncio.sleep(1)) for _ in range(20)]
        assert sorted(set(tasks), key=hash) == tasks
        await asyncio.wait(tasks)

    loop.run_until_complete(main())


def test_exceptions_that_nothing_handles_are_reported(loop, caplog):
    reported = []
    loop.on_unhandled = reported.append

    async def fail():
        raise ValueError("lost")

    async def work():
        loop.call_soon(lambda: 1 / 0)
        loop.create_task(fail())
        await asyncio.sleep(1)

    loop.run_until_complete(work())

    assert len(reported) == 2
    assert "ZeroDivisionError" in reported[0]
    assert reported[1] == "SimulatedTask exception was never retrieved: ValueError('lost')"
    assert "lost" in caplog.text


def test_exceptions_of_a_dropped_process_are_not_reported(loop):
    reported = []
    loop.on_unhandled = reported.append

    async def fail():
        raise ValueError("lost")

    async def wait():
        task = loop.create_task(fail())
        await asyncio.sleep(60)
        await task

    async def work():
        loop.create_task(wait(), context=process(1))
        await asyncio.sleep(1)
        loop.drop(1)

    loop.run_until_complete(work())

    assert reported == []


@pytest.mark.parametrize("callbacks", range(1, 10))
def test_failed_group_of_a_crashed_process_is_not_reported(loop, callbacks):
    reported = []
    loop.on_unhandled = reported.append

    async def fail():
        await asyncio.sleep(1)
        raise ValueError("lost")

    async def wait():
        await asyncio.gather(fail(), asyncio.sleep(60))

    async def work():
        loop.crash_at, loop.on_crash = callbacks, lambda: loop.drop(1)
        loop.create_task(wait(), context=process(1))
        await asyncio.sleep(2)
        gc.collect()

    loop.run_until_complete(work())

    assert [text for text in reported if "Task" not in text] == []


def test_failed_future_of_a_dropped_process_is_not_reported(loop):
    reported, futures = [], []
    loop.on_unhandled = reported.append

    async def wait():
        futures.append(loop.create_future())
        futures[0].set_exception(ValueError("lost"))
        await asyncio.sleep(60)

    async def work():
        loop.create_task(wait(), context=process(1))
        await asyncio.sleep(1)
        loop.drop(1)
        futures.clear()
        gc.collect()

    loop.run_until_complete(work())

    assert reported == []


def test_tasks_that_a_dropped_process_creates_are_dropped(loop, recwarn):
    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            loop.create_task(asyncio.sleep(1))

    async def main():
        loop.create_task(work(), context=process(1))
        await asyncio.sleep(1)
        loop.drop(1)

    loop.run_until_complete(main())
    left = loop.tasks_of(1)
    gc.collect()

    assert left == [] and recwarn.list == []


def test_dropped_process_does_not_affect_others(loop):
    executed = []

    async def main():
        for number in (1, 2):
            loop.call_soon(executed.append, ("ready", number), context=process(number))
            loop.call_later(1, executed.append, ("timer", number), context=process(number))
        loop.drop(1)
        await asyncio.sleep(2)

    loop.run_until_complete(main())

    assert executed == [("ready", 2), ("timer", 2)]


def test_task_belongs_to_the_process_of_its_context_or_creator(loop):
    async def create():
        return loop.create_task(asyncio.sleep(1))

    async def main():
        inherited = await loop.create_task(create(), context=process(1))
        others = [
            loop.create_task(asyncio.sleep(1), context=process(2)),
            loop.create_task(asyncio.sleep(1), context=Context()),
            loop.create_task(asyncio.sleep(1)),
        ]
        assert [task.process for task in (inherited, *others)] == [1, 2, 0, 0]
        assert loop.tasks_of(1) == [inherited] and loop.tasks_of(2) == others[:1]
        await asyncio.sleep(2)
        assert loop.tasks_of(1) == []

    loop.run_until_complete(main())


def test_callbacks_at_one_time_are_limited_again_after_time_has_passed(loop, monkeypatch):
    monkeypatch.setattr(loop_module, "MAX_STEPS_AT_ONE_TIME", 20)

    async def spin():
        for _ in range(5):
            for _ in range(10):
                await asyncio.sleep(0)
            await asyncio.sleep(1)

    loop.run_until_complete(spin())


def test_tasks_have_their_name_or_a_number(loop):
    async def main():
        tasks = [loop.create_task(asyncio.sleep(0), name=name) for name in ("own", None)]
        assert tasks[0].get_name() == "own" and tasks[1].get_name().startswith("task-")
        await asyncio.gather(*tasks)

    loop.run_until_complete(main())


def test_futures_and_tasks_are_equal_only_to_themselves(loop):
    async def nothing():
        pass

    futures = [loop.create_future(), loop.create_future()]
    tasks = [loop.create_task(nothing()) for _ in range(2)]

    for first, second in (futures, tasks):
        assert first == first and first != second
        assert len({first, second, first}) == 2
    loop.run_until_complete(asyncio.gather(*tasks))


def test_paused_process_continues_in_order_when_it_is_resumed(loop):
    order = []

    async def count(name, seconds):
        for number in range(3):
            order.append((name, number, loop.time()))
            await asyncio.sleep(seconds)

    async def work():
        loop.create_task(count("b", 2.5), context=process(1))
        loop.create_task(count("a", 2), context=process(1))
        loop.create_task(count("other", 2), context=process(2))
        await asyncio.sleep(1)
        loop.pause(1)
        await asyncio.sleep(6)
        assert [each for each in order if each[2] > 1] == [("other", 1, 2), ("other", 2, 4)]
        order.clear()
        loop.resume(1)
        await asyncio.sleep(10)

    loop.run_until_complete(work())

    assert order == [("a", 1, 7), ("b", 1, 7), ("a", 2, 9), ("b", 2, 9.5)]


def test_paused_process_can_be_dropped(loop):
    order = []

    async def work():
        loop.call_later(1, order.append, 1, context=process(1))
        loop.pause(1)
        await asyncio.sleep(2)
        loop.drop(1)
        loop.resume(1)
        await asyncio.sleep(1)

    loop.run_until_complete(work())

    assert order == []
