"""Owned tasks: named, cancelled and awaited when their owner closes.

Custom, since a failing task of an ``asyncio.TaskGroup`` cancels the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

_log = logging.getLogger(__name__)


class TaskOwner:
    """Owner of short-lived tasks; closing it cancels and awaits them, and logs those that keep running.

    A failed task is logged once and does not affect the others. Loops whose failure must terminate the process belong
    in the task group of the agent instead.
    """

    def __init__(self, name: str, *, close_seconds: float = 5.0) -> None:
        self._name, self._close_seconds = name, close_seconds
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run *coroutine* as an owned task named *name*."""
        if self._closed:
            coroutine.close()
            raise RuntimeError(f"{self._name} is closed")
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self._name}/{name}")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def __len__(self) -> int:
        return len(self._tasks)

    async def close(self) -> None:
        """Cancel all tasks and wait for them, within the time limit."""
        self._closed = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=self._close_seconds)
            for task in stuck:
                _log.error("Task still running after cancellation", extra={"task": task.get_name()})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("Task failed", extra={"task": task.get_name()}, exc_info=error)
