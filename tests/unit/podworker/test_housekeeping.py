"""Tests for the cleanup of orphaned pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from nodeagent.podworker.housekeeping import CLEANUP_SECONDS, ORPHAN_SECONDS, Housekeeping
from nodeagent.testing import FakeClock

UIDS = ("desired", "listed", "new", "gone")


class Node:
    """The pod workers, the pod cache, the syncer and the allocations of a node."""

    def __init__(self) -> None:
        self.all_sources_ready = True
        self.listed: frozenset[str] | None = frozenset()
        self.desired, self.added = {"desired"}, set[str]()
        self.kept: list[set[str]] = []
        self.allocated: list[set[str]] = []
        self.checks = 0
        self.removal = asyncio.Event()
        self.removal.set()

    def pods(self) -> list[Any]:
        return []

    def uids(self) -> frozenset[str] | None:
        return self.listed

    def terminate_orphans(self, observed: list[Any]) -> None:
        self.checks += 1

    def is_known(self, uid: str) -> bool:
        return uid in self.desired

    async def retain(self, is_known: Callable[[str], bool]) -> None:
        self.allocated.append(set(filter(is_known, UIDS)))

    async def remove_orphans(self, is_known: Callable[[str], bool]) -> None:
        await self.removal.wait()
        self.desired |= self.added
        self.kept.append(set(filter(is_known, UIDS)))


@asynccontextmanager
async def running(node: Any, clock: FakeClock) -> AsyncIterator[Housekeeping]:
    housekeeping = Housekeeping(node, node, lambda: node, clock, node)
    task = asyncio.ensure_future(housekeeping.run())
    await clock.settle()
    yield housekeeping
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_desired_and_listed_pods_keep_their_directories_and_allocations(clock: FakeClock) -> None:
    node = Node()
    node.listed = frozenset({"listed"})
    async with running(node, clock):
        assert node.kept == node.allocated == [{"desired", "listed"}]
        await clock.advance(CLEANUP_SECONDS + ORPHAN_SECONDS)

    assert node.kept == node.allocated == [{"desired", "listed"}] * 2


async def test_nothing_is_removed_until_the_runtime_has_listed_its_pods(clock: FakeClock) -> None:
    node = Node()
    node.listed = None
    async with running(node, clock):
        await clock.advance(2 * CLEANUP_SECONDS)
        assert node.kept == node.allocated == []
        node.listed = frozenset({"listed"})
        await clock.advance(ORPHAN_SECONDS)

    assert node.kept == node.allocated == [{"desired", "listed"}]


async def test_nothing_is_removed_until_all_sources_have_published(clock: FakeClock) -> None:
    node = Node()
    node.all_sources_ready = False
    async with running(node, clock) as housekeeping:
        await clock.advance(CLEANUP_SECONDS)
        assert node.kept == []
        node.all_sources_ready = True
        housekeeping.wake()
        await clock.advance(1)

    assert node.kept == [{"desired"}]


async def test_pods_that_are_added_during_the_cleanup_are_known(clock: FakeClock) -> None:
    node = Node()
    node.added = {"new"}
    async with running(node, clock):
        pass

    assert (node.allocated, node.kept) == ([{"desired"}], [{"desired", "new"}])


async def test_slow_removal_delays_neither_terminations_nor_starts_again(clock: FakeClock) -> None:
    node = Node()
    node.removal.clear()
    async with running(node, clock) as housekeeping:
        for count in range(2, 5):
            housekeeping.wake()
            await clock.advance(CLEANUP_SECONDS)
            assert node.checks >= count
        assert (len(node.allocated), node.kept) == (1, [])
        node.removal.set()
        await clock.settle()
        assert node.kept == [{"desired"}]
        await clock.advance(CLEANUP_SECONDS)

    assert len(node.kept) == 2
