"""Tests for the aggregation of pull progress."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from nodeagent.contracts.pull_progress import PullProgress
from nodeagent.contracts.runtime import Transfer
from nodeagent.errors import RuntimeUnavailable
from nodeagent.testing import FakeClock, FakeImages

MIB = 1 << 20


class Telling(FakeImages):
    """Image service that reports transfers."""

    def __init__(self, *responses: Sequence[Transfer] | Exception | None) -> None:
        super().__init__()
        self.responses = list(responses)

    async def transfers(self) -> Sequence[Transfer] | None:
        response = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        if isinstance(response, Exception):
            raise response
        return response


def test_transfers_are_summed_and_finished_ones_count_as_complete() -> None:
    progress = PullProgress()
    progress.update([])
    progress.update([Transfer("a", MIB, 4 * MIB), Transfer("b", 0, 2 * MIB)])
    progress.update([Transfer("b", MIB, 2 * MIB), Transfer("c", MIB, 0)])

    assert (progress.received_bytes, progress.total_bytes) == (6 * MIB, 7 * MIB)
    assert str(progress) == "6 MiB of 7 MiB"


def test_earlier_transfers_count_only_once_they_advance() -> None:
    progress = PullProgress()
    progress.update([Transfer("left", 5, 10), Transfer("resumed", 5, 10)])
    progress.update([Transfer("left", 5, 10), Transfer("resumed", 6, 10)])

    assert (progress.received_bytes, progress.total_bytes) == (6, 10)


async def test_runtime_without_progress_is_polled_once(clock: FakeClock) -> None:
    for images in (FakeImages(), Telling(None)):
        progress = PullProgress()

        await progress.poll(images, clock.sleep)

        assert progress.supported is False


async def test_unavailable_runtime_is_polled_again(clock: FakeClock) -> None:
    images = Telling((), RuntimeUnavailable("away"), [Transfer("a", 1, 3)])
    progress = PullProgress()
    task = asyncio.create_task(progress.poll(images, clock.sleep))

    await clock.advance(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert progress.supported
    assert progress.received_bytes == 1
