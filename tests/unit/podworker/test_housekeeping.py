"""Tests for the cleanup of orphaned pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from nodeagent.podworker.housekeeping import CLEANUP_SECONDS, ORPHAN_SECONDS, Housekeeping
from nodeagent.testing import FakeClock


class Node:
    """The pod workers, the pod cache, the syncer and the allocations of a node."""

    def __init__(self) -> None:
        self.all_sources_ready = True
        self.listed: frozenset[str] | None = frozenset()
        self.kept: list[frozenset[str]] = []
        self.allocated: list[frozenset[str]] = []

    def pods(self) -> list[Any]:
        return []

    def uids(self) -> frozenset[str] | None:
        return self.listed

    def terminate_orphans(self, observed: list[Any]) -> None:
        pass

    def known_uids(self) -> frozenset[str]:
        return frozenset({"desired"})

    async def retain(self, uids: frozenset[str]) -> None:
        self.allocated.append(uids)

    async def remove_orphans(self, desired: frozenset[str], observed: frozenset[str]) -> None:
        self.kept.append(desired | observed)


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
