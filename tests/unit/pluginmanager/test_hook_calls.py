"""Tests for calls of async hooks: plugins that hang, ignore their cancellation or raise an exit."""

import asyncio
import contextlib
import time

import pytest

from nodeagent.errors import PluginError, PluginTimeout
from nodeagent.pluginmanager import hook_calls
from nodeagent.pluginmanager.hook_calls import HookCalls
from nodeagent.pluginmanager.hook_stats import HookStats


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.setattr(hook_calls, "CANCEL_SECONDS", 0.01)
    return HookCalls()


@pytest.fixture
def stats():
    return HookStats()


async def run(calls, stats, function, *arguments, deadline=0.01):
    return await calls.run("slow", "hook", function, arguments, deadline_seconds=deadline, stats=stats)


def ignores_cancellation(ended):
    async def hook():
        try:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
        finally:
            ended.append(True)

    return hook


async def test_result_is_returned_and_measured(calls, stats):
    async def hook(value):
        await asyncio.sleep(0)
        return value + 1

    assert await run(calls, stats, hook, 1, deadline=5) == 2
    assert (stats.calls, stats.failures, sum(stats.counts)) == (1, 0, 1)
    assert calls.in_flight == []


async def test_hanging_call_is_cancelled_at_the_deadline(calls, stats):
    async def hook():
        await asyncio.Event().wait()

    with pytest.raises(PluginTimeout, match=r"plugin slow: hook exceeded its deadline of 0\.01 s$"):
        await run(calls, stats, hook)
    assert (stats.failures, stats.abandoned) == (1, 0)


async def test_call_that_ignores_its_cancellation_is_terminated(calls, stats):
    ended = []

    with pytest.raises(PluginTimeout, match="and ignored its cancellation"):
        await run(calls, stats, ignores_cancellation(ended))
    await asyncio.sleep(0.01)

    assert ended == [True]
    assert (stats.failures, stats.abandoned) == (1, 1)
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_late_result_is_discarded(calls, stats):
    async def hook():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "late"

    with pytest.raises(PluginTimeout):
        await run(calls, stats, hook)


class Quit(BaseException):
    """Exception that code for ordinary exceptions does not handle."""


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Quit()])
async def test_exception_that_would_terminate_the_agent_is_a_failed_call(calls, stats, error):
    async def hook():
        await asyncio.sleep(0)
        raise error

    with pytest.raises(
        PluginError,
        match=r"plugin slow: hook raised (SystemExit|KeyboardInterrupt|GeneratorExit|Quit)\(.*test_hook_calls",
    ):
        await run(calls, stats, hook, deadline=5)
    assert stats.failures == 1


async def test_call_that_cancels_itself_is_a_failure_of_the_plugin(calls, stats):
    async def hook():
        raise asyncio.CancelledError

    with pytest.raises(PluginError, match="hook was cancelled by the plugin"):
        await run(calls, stats, hook, deadline=5)


async def test_cancelled_caller_stops_the_call(calls, stats):
    ended = []
    caller = asyncio.ensure_future(run(calls, stats, ignores_cancellation(ended), deadline=60))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.sleep(0.01)

    assert ended == [True]


async def test_running_call_is_visible_only_during_its_steps(calls, stats):
    seen = []

    async def hook():
        seen.append(calls.running.plugin)
        await asyncio.sleep(0.001)
        seen.append(calls.running.hook)

    task = asyncio.ensure_future(run(calls, stats, hook, deadline=5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert calls.running is None
    await task

    assert seen == ["slow", "hook"]


async def test_cpu_time_and_longest_step_exclude_waiting(calls, stats):
    async def hook():
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        await asyncio.sleep(0.1)

    await run(calls, stats, hook, deadline=60)

    assert stats.cpu_seconds >= 0.02
    assert stats.seconds >= 0.1
    assert stats.cpu_seconds < stats.seconds


async def test_arguments_that_do_not_fit_are_a_failure_of_the_plugin(calls, stats):
    async def hook(): ...

    with pytest.raises(PluginError, match="hook failed: TypeError"):
        await run(calls, stats, hook, "surplus")


def test_quantile_is_the_upper_bound_of_its_bucket_or_the_longest_call():
    stats = HookStats()
    for _ in range(98):
        stats.observe(0.0004)
    stats.observe(2.0)
    stats.observe(2.0)

    assert stats.quantile(0.5) == stats.quantile(0.98) == 0.0005
    assert stats.quantile(0.99) == 2.0  # No call took longer.
    assert HookStats().quantile(0.99) is None
