"""Tests for contained calls: log messages of failures, the quarantine of a plugin, and its removal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from nodeagent.errors import PluginError, PluginUnavailable
from nodeagent.pluginmanager import contained_calls
from nodeagent.pluginmanager.contained_calls import SKIPPED, ContainedCalls
from nodeagent.pluginmanager.quarantine import QuarantinePolicy
from nodeagent.pluginmanager.records import PluginInfo

INFO, PART, OTHER = (PluginInfo(name) for name in ("a", "a.part", "b"))
HOOK = "nodeagent_admit_pod"


class Clock:
    """Monotonic time, set by tests."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock_of_calls(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(contained_calls.time, "monotonic", clock.monotonic)
    return clock


@pytest.fixture
def calls(clock_of_calls: Clock) -> ContainedCalls:
    calls = ContainedCalls(lambda plugin: False, lambda plugin: plugin.startswith("required"))
    calls.policy = QuarantinePolicy(failures=2, retry_seconds=60)
    return calls


async def fails() -> None:
    raise OSError("boom")


async def works() -> None: ...


async def call(calls: ContainedCalls, function: Callable[..., Any], info: PluginInfo = INFO, problem: str = "") -> Any:
    return await calls.call_hook(info, HOOK, function, (), deadline_seconds=5, problem_of=lambda result: problem)


async def quarantine(calls: ContainedCalls, info: PluginInfo = INFO) -> None:
    for _ in range(2):
        with pytest.raises(PluginError, match="boom"):
            await call(calls, fails, info)


async def test_quarantined_required_plugin_states_the_time_of_the_next_attempt(
    calls: ContainedCalls, clock_of_calls: Clock
) -> None:
    info = PluginInfo("required")
    await quarantine(calls, info)
    clock_of_calls.now += 13
    with pytest.raises(PluginUnavailable, match=r"required: failed repeatedly, next attempt in 47 s: .*boom"):
        await call(calls, works, info)
    assert info.stats[HOOK].skipped == 1


async def test_cancelled_attempt_is_followed_by_another(calls: ContainedCalls, clock_of_calls: Clock) -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    await quarantine(calls)
    clock_of_calls.now += 60
    attempt = asyncio.create_task(call(calls, hangs))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await call(calls, works) is SKIPPED, "one call is attempted"
    attempt.cancel()
    await asyncio.wait({attempt})
    assert await call(calls, works) is None


async def test_cancelled_call_of_a_healthy_plugin_is_passed_on(calls: ContainedCalls) -> None:
    task = asyncio.create_task(call(calls, lambda: asyncio.sleep(60)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled() and calls.quarantines == {} and calls.failing == []


async def test_first_failure_and_recovery_are_logged(calls: ContainedCalls, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    calls.policy = QuarantinePolicy(failures=0)
    for function in (fails, fails, works, works):
        try:
            await call(calls, function)
        except PluginError:
            assert calls.failing == [("a", HOOK)]
    assert caplog.messages == ["Plugin hook failed", "Plugin hook recovered"] and calls.failing == []


@pytest.mark.parametrize(("function", "problem"), [(fails, ""), (works, "returned 7, expected None")])
async def test_failure_is_logged_with_its_traceback_or_its_text(
    calls: ContainedCalls, caplog: pytest.LogCaptureFixture, function: Callable[..., Any], problem: str
) -> None:
    with pytest.raises(PluginError):
        await call(calls, function, problem=problem)
    (record,) = caplog.records
    assert bool(record.exc_info) is not bool(problem)
    assert getattr(record, "err", None) == (f"plugin a: {HOOK} {problem}" if problem else None)


async def test_failures_of_a_removed_plugin_are_dropped_until_it_is_restored(calls: ContainedCalls) -> None:
    for info in (INFO, PART, OTHER):
        with pytest.raises(PluginError):
            await call(calls, fails, info)

    withdrawn = calls.withdraw("a")

    assert calls.failing == [("b", HOOK)] and list(calls.quarantines) == ["b"]
    assert await call(calls, works) is None
    calls.restore("a", withdrawn)
    assert await call(calls, works) is SKIPPED
    calls.restore("c", calls.withdraw("c"))
    assert set(calls.quarantines) == {"a", "b"}


async def test_objects_share_the_quarantine_of_their_plugin(calls: ContainedCalls) -> None:
    changes: list[tuple[str, bool]] = []
    calls.on_quarantine = lambda plugin, state: changes.append((plugin, state.until is not None))
    for info in (INFO, PART):
        with pytest.raises(PluginError):
            await call(calls, fails, info)
    assert await call(calls, works, PART) is SKIPPED and changes == [("a", True)]
    assert await call(calls, works, OTHER) is None


async def test_plugin_is_called_again_after_its_quarantine(
    calls: ContainedCalls, clock_of_calls: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    changes: list[bool] = []
    calls.on_quarantine = lambda plugin, state: changes.append(state.until is not None)
    await quarantine(calls)
    clock_of_calls.now += 59.9
    assert await call(calls, works) is SKIPPED
    clock_of_calls.now += 0.1
    assert await call(calls, works) is None and changes == [True, False]
    assert caplog.messages[-2:] == ["Plugin hook recovered", "Plugin recovered from quarantine"]


async def test_bundled_plugin_has_no_quarantine() -> None:
    calls = ContainedCalls(lambda plugin: True, lambda plugin: True)
    calls.policy = QuarantinePolicy(failures=1)
    await quarantine(calls)
    calls.record_failure(INFO, "blocked the event loop")
    assert await call(calls, works) is None and calls.quarantines == {}


async def test_only_objects_of_third_party_plugins_are_contained() -> None:
    class Kind:
        async def setup(self) -> str:
            return "ready"

    for bundled, contained in ((True, False), (False, True)):
        calls = ContainedCalls(lambda plugin, bundled=bundled: bundled, lambda plugin: False)  # type: ignore[misc]
        kind = Kind()
        (wrapped,) = calls.contain(INFO, "nodeagent_provide_volume_kinds", [kind])
        assert (wrapped is not kind) is contained and await wrapped.setup() == "ready"
        assert calls.contain(INFO, "nodeagent_provide_routes", [kind])[0] is kind
        assert list(calls.contain(INFO, "nodeagent_provide_volume_kinds", [])) == []


async def test_lasting_method_has_succeeded_after_the_window(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    calls = ContainedCalls(lambda plugin: False, lambda plugin: False)
    calls.policy = QuarantinePolicy(failures=5, window_seconds=0)
    hook = "nodeagent_provide_background_loops"

    async def slips() -> None:
        raise KeyError("bug")

    with pytest.raises(PluginError):
        await calls.call_method(INFO, hook, "run", slips, ())
    task = asyncio.create_task(calls.call_method(INFO, hook, "run", lambda: asyncio.sleep(60), ()))
    while calls.failing:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert "Plugin hook recovered" in caplog.messages


async def test_plain_method_that_fails_is_attributed(calls: ContainedCalls) -> None:
    def fail() -> None:
        raise KeyError("bug")

    hook = "nodeagent_provide_volume_kinds"
    with pytest.raises(PluginError, match=r"plugin a: volume_kind\.supports failed"):
        calls.call_plain_method(INFO, hook, "supports", fail, ())
    assert calls.failing == [("a", "volume_kind.supports")]
    assert calls.call_plain_method(INFO, hook, "supports", lambda: True, ()) is True
    assert calls.failing == []
