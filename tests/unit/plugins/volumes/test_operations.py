"""Tests for the queue of operations on volumes: exclusion, back-off, and errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeagent.base.aio import TaskOwner
from nodeagent.errors import VolumeError
from nodeagent.testing import FakeClock
from nodeagent_plugins.volumes.operations import MAX_SECONDS, OperationQueue, error_text


class Calls:
    """A queue, and operations that block until the test ends them."""

    def __init__(self, clock: FakeClock, tasks: TaskOwner) -> None:
        self.clock = clock
        self.ended: list[tuple[str, str]] = []
        self.stops = 0
        self.queue = OperationQueue(clock, tasks, lambda volume, pod: self.ended.append((volume, pod)), self.stop)

    def stop(self) -> None:
        self.stops += 1

    def start(self, volume: str, pod: str, name: str = "mount", *, paced: bool = False) -> asyncio.Future[None] | None:
        """Start an operation; return the future that ends it, or ``None`` if it was not started."""
        result: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            await result

        return result if self.queue.start(volume, pod, name, work, paced=paced) is not None else None

    async def run(self, error: Exception | None = None, name: str = "mount", *, paced: bool = False) -> bool:
        """Run an operation to its end; return whether it was started."""
        result = self.start("v", "p", name, paced=paced)
        if result is None:
            return False
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(None)
        await self.clock.advance(0)
        return True

    def error(self) -> str:
        failure = self.queue.failure("v", "p")
        return failure.text if failure is not None else ""


@pytest.fixture
async def calls(clock: FakeClock) -> AsyncIterator[Calls]:
    async with TaskOwner("test") as tasks:
        yield Calls(clock, tasks)


@pytest.mark.parametrize(
    ("running", "next", "starts"),
    [
        (("v", "a"), ("v", "a"), False),
        (("v", "a"), ("v", "b"), True),
        (("v", "a"), ("v", ""), False),
        (("v", ""), ("v", "a"), False),
        (("v", ""), ("v", ""), False),
        (("v", ""), ("w", ""), True),
    ],
)
async def test_operation_excludes_those_of_its_pod_or_of_its_volume(
    calls: Calls, running: tuple[str, str], next: tuple[str, str], starts: bool
) -> None:
    first = calls.start(*running)
    assert first is not None
    assert (calls.start(*next) is not None) is starts
    first.set_result(None)
    await calls.clock.advance(0)
    assert calls.ended == [running]
    assert (calls.start(*next) is not None) is not starts


async def test_running_operations_are_listed_with_their_start(calls: Calls) -> None:
    assert calls.queue.running("v") == []
    await calls.clock.advance(3)
    results = [calls.start("v", "a"), calls.start("v", "b", "unmount")]
    running = calls.queue.running("v")
    assert [(each.volume, each.pod, each.name) for each in running] == [("v", "a", "mount"), ("v", "b", "unmount")]
    assert {each.started for each in running} == {calls.clock.now()}
    for result in results:
        assert result is not None
        result.set_result(None)
    await calls.clock.advance(0)
    assert calls.queue.running("v") == []


async def test_failed_operation_is_started_again_after_its_delay_only(calls: Calls) -> None:
    delays = []
    for _ in range(10):
        assert await calls.run(VolumeError("busy"))
        (failure,) = calls.queue.failures("v")
        assert (failure.name, failure.text) == ("mount", "busy")
        delays.append(failure.due - calls.clock.now())
        await calls.clock.advance(delays[-1] - 0.25)
        assert not await calls.run()
        before = len(calls.ended)
        await calls.clock.advance(0.25)
        assert calls.ended[before:] == [("v", "p")], "the reconciler is called at the end of the back-off"
    assert delays == [0.5, 1, 2, 4, 8, 16, 32, 64, MAX_SECONDS, MAX_SECONDS]


async def test_back_off_is_for_the_operation_that_has_failed(calls: Calls) -> None:
    for _ in range(2):
        assert await calls.run(VolumeError("busy"))
        await calls.clock.advance(2)
    assert await calls.run(VolumeError("other"), "unmount")
    assert not await calls.run(name="unmount") and calls.error() == "other"
    assert calls.queue.failures("v")[0].delay == 0.5
    assert await calls.run(name="mount")
    assert calls.error() == "" and calls.queue.failures("v") == [] and await calls.run(name="unmount")


async def test_success_ends_the_back_off(calls: Calls) -> None:
    assert await calls.run(VolumeError("busy"))
    await calls.clock.advance(0.5)
    assert await calls.run() and await calls.run(VolumeError("busy"))
    assert calls.queue.failures("v")[0].delay == 0.5


async def test_paced_operation_has_no_back_off(calls: Calls) -> None:
    assert await calls.run(VolumeError("busy"), paced=True)
    assert await calls.run(VolumeError("busy"), paced=True) and calls.error() == "busy"
    ended = len(calls.ended)
    await calls.clock.advance(60)
    assert len(calls.ended) == ended == 2


async def test_errors_of_a_removed_volume_are_dropped(calls: Calls) -> None:
    await calls.run(VolumeError("busy"))
    calls.queue.forget("w")
    assert calls.error() == "busy"
    calls.queue.forget("v")
    assert calls.error() == "" and await calls.run()


async def test_only_unexpected_errors_are_logged(calls: Calls, caplog: pytest.LogCaptureFixture) -> None:
    await calls.run(VolumeError("busy"), paced=True)
    await calls.run(OSError(16, "busy"), paced=True)
    assert caplog.messages == []
    await calls.run(KeyError("bug"), paced=True)
    assert caplog.messages == ["Volume operation failed"] and calls.error() == "'bug'"


async def test_cancelled_operations_stop_the_waits(clock: FakeClock) -> None:
    async with TaskOwner("test") as tasks:
        calls = Calls(clock, tasks)
        calls.start("v", "a")
        await clock.advance(0)
    assert calls.stops == 1 and calls.ended == [] and calls.queue.running("v") == []


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (VolumeError("busy"), "busy"),
        (OSError(16, "Device or resource busy"), "Device or resource busy"),
        (OSError(16, "Device or resource busy", "/mnt"), "Device or resource busy: /mnt"),
        (OSError("odd"), "odd"),
        (KeyError(), "KeyError"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_text_of_an_error_has_its_reason_and_path(error: Exception, text: str) -> None:
    assert error_text(error) == text


def test_path_of_an_error_is_printed_unquoted() -> None:
    with pytest.raises(OSError) as raised:
        Path("/nonexistent/x").stat()
    assert error_text(raised.value) == "No such file or directory: /nonexistent/x"
