"""Tests for the first pod sync."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from nodeagent.podworker.first_sync import MAX_WAIT_SECONDS, FirstSync


class Pods:
    """Fake pod workers with settable statuses."""

    def __init__(self) -> None:
        self.all_sources_ready = False
        self.statuses: dict[str, object] = {}

    def all(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(uid="one"), SimpleNamespace(uid="two")]

    def status(self, uid: str) -> object | None:
        return self.statuses.get(uid)


async def test_first_sync_waits_for_all_sources_and_statuses(clock) -> None:
    pods, done = Pods(), []
    task = asyncio.create_task(FirstSync(pods, clock, lambda: done.append(True)).run())  # type: ignore[arg-type]
    await clock.advance(1)
    pods.all_sources_ready = True
    pods.statuses["one"] = object()
    await clock.advance(1)
    assert not done

    pods.statuses["two"] = object()
    await clock.advance(1)

    assert done == [True]
    await task


async def test_first_sync_times_out_if_a_source_is_unavailable(clock) -> None:
    done: list[bool] = []
    task = asyncio.create_task(FirstSync(Pods(), clock, lambda: done.append(True)).run())  # type: ignore[arg-type]
    await clock.advance(MAX_WAIT_SECONDS - 1)
    assert not done

    await clock.advance(2)

    assert done == [True]
    await task
