"""Control loop: a change feed fills a work queue, and each key is processed with up-to-date state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.work_queue import WorkQueue

Key = TypeVar("Key")


async def run_controller(
    feed: ChangeFeed, queue: WorkQueue[Key], process: Callable[[Key], Awaitable[None]], *, at_once: int = 1
) -> None:
    """Run *feed* and *queue* until cancelled; the feed is caught up before each call of *process*."""

    async def catch_up_and_process(key: Key) -> None:
        await feed.catch_up()
        await process(key)

    async with asyncio.TaskGroup() as group:
        group.create_task(feed.run())
        group.create_task(queue.run(catch_up_and_process, at_once=at_once))
