"""What one look after the other at a runtime's transfers adds up to."""

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
    """Images whose pulls tell how far they are."""

    def __init__(self, *looks: Sequence[Transfer] | Exception | None) -> None:
        super().__init__()
        self.looks = list(looks)

    async def transfers(self) -> Sequence[Transfer] | None:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Exception):
            raise look
        return look


def test_parts_add_up_and_those_that_are_gone_count_whole() -> None:
    progress = PullProgress()
    progress.update([])
    progress.update([Transfer("a", MIB, 4 * MIB), Transfer("b", 0, 2 * MIB)])
    progress.update([Transfer("b", MIB, 2 * MIB), Transfer("c", MIB, 0)])

    assert (progress.received_bytes, progress.total_bytes) == (6 * MIB, 7 * MIB)
    assert str(progress) == "6 MiB of 7 MiB"


def test_what_lay_there_before_counts_only_once_it_advances() -> None:
    progress = PullProgress()
    progress.update([Transfer("left", 5, 10), Transfer("resumed", 5, 10)])
    progress.update([Transfer("left", 5, 10), Transfer("resumed", 6, 10)])

    assert (progress.received_bytes, progress.total_bytes) == (6, 10)


async def test_a_runtime_that_does_not_tell_is_asked_once(clock: FakeClock) -> None:
    for images in (FakeImages(), Telling(None)):
        progress = PullProgress()

        await progress.poll(images, clock.sleep)

        assert progress.supported is False


async def test_a_runtime_that_is_away_is_asked_again(clock: FakeClock) -> None:
    images = Telling((), RuntimeUnavailable("away"), [Transfer("a", 1, 3)])
    progress = PullProgress()
    task = asyncio.create_task(progress.poll(images, clock.sleep))

    await clock.advance(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert progress.supported
    assert progress.received_bytes == 1
