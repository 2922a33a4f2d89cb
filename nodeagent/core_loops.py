"""Loops of the core: started in order, and cancelled in order when one of them ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any

STOP_SECONDS = 10.0
_log = logging.getLogger(__name__)


class CoreLoops:
    """The tasks without which the agent cannot run."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._stop = asyncio.Event()

    @property
    def names(self) -> Collection[str]:
        """The names of all loops that were started and not cancelled."""
        return self._tasks.keys()

    @property
    def stopping(self) -> bool:
        """True once :meth:`stop` was called or a loop has ended."""
        return self._stop.is_set()

    def start(self, name: str, coroutine: Coroutine[Any, Any, Any], *, may_end: bool = False) -> None:
        """Run *coroutine* as a task.

        :param may_end: all loops continue after it returned or was cancelled; they always end when it failed.
        """
        task = asyncio.create_task(coroutine, name=name)
        self._tasks[name] = task

        def done(ended: asyncio.Task[Any]) -> None:
            if not may_end or (not ended.cancelled() and ended.exception() is not None):
                self._stop.set()

        task.add_done_callback(done)

    def stop(self) -> None:
        """End :meth:`wait`."""
        self._stop.set()

    async def wait(self) -> None:
        """Wait until :meth:`stop` is called or a loop ends. The exception of a failed loop is raised."""
        await self._stop.wait()
        for name, task in self._tasks.items():
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                _log.error("Failed to run core loop, shutting down", extra={"loop": name}, exc_info=error)
                raise error

    async def cancel(self, names: Collection[str]) -> None:
        """Cancel those of the named loops that run, and wait at most 10 s for their ends."""
        tasks = {task for name in list(names) if (task := self._tasks.pop(name, None)) is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=STOP_SECONDS)
            for task in stuck:
                _log.error("Failed to stop loop in time", extra={"loop": task.get_name()})
