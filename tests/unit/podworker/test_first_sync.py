"""When the first round over all pods counts as done."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from nodeagent.podworker.first_sync import LONGEST_SECONDS, FirstSync


class Pods:
    """Pods whose status the test sets."""

    def __init__(self) -> None:
        self.all_known = False
        self.statuses: dict[str, object] = {}

    def all(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(uid="one"), SimpleNamespace(uid="two")]

    def status(self, uid: str) -> object | None:
        return self.statuses.get(uid)


async def test_waits_for_every_source_and_for_a_status_of_every_pod(clock) -> None:
    pods, done = Pods(), []
    task = asyncio.create_task(FirstSync(pods, clock, lambda: done.append(True)).run())  # type: ignore[arg-type]
    await clock.advance(1)
    pods.all_known = True
    pods.statuses["one"] = object()
    await clock.advance(1)
    assert not done

    pods.statuses["two"] = object()
    await clock.advance(1)

    assert done == [True]
    await task


async def test_a_source_that_cannot_be_read_does_not_hold_it_up_for_ever(clock) -> None:
    done: list[bool] = []
    task = asyncio.create_task(FirstSync(Pods(), clock, lambda: done.append(True)).run())  # type: ignore[arg-type]
    await clock.advance(LONGEST_SECONDS - 1)
    assert not done

    await clock.advance(2)

    assert done == [True]
    await task
